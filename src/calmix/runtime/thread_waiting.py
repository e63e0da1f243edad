"""How the threads of a computation wait for each other; needs no torch, since it must be set before torch is
loaded.

By default an idle thread of OpenMP spins, since the next piece of work comes soon. On a machine that others
use, spinning takes the time of the very thread that is waited for.
"""

from __future__ import annotations

import os
import sys

POLICY = "OMP_WAIT_POLICY"


def wait_asleep() -> None:
    """Let idle threads sleep, unless the user has set how they wait. Too late once torch is loaded."""
    if "torch" not in sys.modules:
        os.environ.setdefault(POLICY, "PASSIVE")
