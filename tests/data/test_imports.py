"""Reading files needs none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys


def test_reading_rows_loads_no_torch_transformers_or_datasets():
    code = (
        "import sys, calmix.data, calmix.data.checks, calmix.data.embedded;"
        "print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
