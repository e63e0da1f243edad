"""`python -m calmix`, and `torchrun -m calmix` for several processes."""

from calmix.cli.app import main

main()
