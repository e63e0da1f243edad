"""How the threads of a computation wait for each other; needs no torch, since it must be said before torch is
loaded.

By default a thread of OpenMP that has nothing to do runs in circles, for the next piece of work comes soon.
On a machine that others use, the circles take the time of the thread that is waited for. On two cores with a
load of 12, a training step with two threads took 3.8-5.1 s so, and 0.6-1.2 s where threads sleep instead.
"""

from __future__ import annotations

import os
import sys

POLICY = "OMP_WAIT_POLICY"


def wait_asleep() -> None:
    """Let idle threads sleep, unless the user has said how they wait. Too late once torch is loaded."""
    if "torch" not in sys.modules:
        os.environ.setdefault(POLICY, "PASSIVE")
