"""Idle threads sleep in every command, unless the user has said otherwise."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from calmix.__main__ import wait_asleep
{before}
wait_asleep()
print(os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("given", "before", "expected"),
    [(None, "", "PASSIVE"), ("ACTIVE", "", "ACTIVE"), (None, "import torch", "None")],
)
def test_the_policy_is_set_before_torch_is_loaded_and_never_overwritten(given, before, expected):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    command = [sys.executable, "-c", SCRIPT.format(before=before)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == [expected]
