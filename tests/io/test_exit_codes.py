"""A refused file ends the process with the code that was asked for: no thread of a parser outlives it."""

import json
import subprocess
import sys

import pytest

# Each child reads the file and ends as the command line does, through the interpreter's own end.
SCRIPT = """
import os, sys
from calmix.io.tables import table_batches
from calmix.user_error import UserError
codes = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        try:
            for batch in table_batches(sys.argv[1], batch_rows=100):
                pass
        except UserError:
            sys.exit(2)
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(set(codes)))
"""

REFUSED = {
    "uneven.csv": b"label,prob_0,prob_1\n" + b"0,.5,.5\n" * 5000 + b"0,.5\n",
    "unclosed.csv": b'label,prob_0,name\n0,.5,a\n0,.5,"b\n' + b"1,.5,c\n" * 5000,
    "word.csv": b"label,prob_0,prob_1\n" + b"0,.5,.5\n" * 5000 + b"0,x\xe9,.5\n",
    "torn.csv.gz": b"no gzip",
    "null.jsonl": b'{"label": 0, "probs": [0.5, 0.5]}\nnull\n',
    "torn.parquet": None,
}


@pytest.mark.processes
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_file_always_gives_the_same_exit_code(name, tmp_path):
    file = tmp_path / name
    calls = "40" if name == "uneven.csv" else "5"
    content = REFUSED[name]
    if content is None:
        import pyarrow as pa
        import pyarrow.parquet

        pa.parquet.write_table(pa.table({"label": list(range(5000))}), file, row_group_size=100)
        whole = bytearray(file.read_bytes())
        whole[3000:3400] = b"\xff" * 400
        content = bytes(whole)
    file.write_bytes(content)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(file), calls], capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)) == (0, [2]), done.stderr
