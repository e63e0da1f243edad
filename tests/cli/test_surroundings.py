"""A terminal that knows few characters, and places where nothing can be written."""

import os
import subprocess
import sys

import pytest

from calmix.cli.app import main


@pytest.mark.processes
def test_an_ascii_terminal_gets_every_line(tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("label,prob_é,prob_ü\n" + "é,.9,.1\nü,.2,.8\né,.3,.7\n" * 20, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "calmix", "evaluate", str(file), str(file)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert b"\\u2212" in done.stdout  # the minus sign of "first - second"
    done.stdout.decode("ascii")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(30, "Read-only file system", "run/config.yaml"),
            "run/config.yaml: the file system is read-only",
        ),
        (OSError(28, "No space left on device"), "no space left on the disk"),
        (PermissionError(13, "Permission denied", "run"), "run: permission denied"),
        (OSError(36, "File name too long", "a" * 300), "the name is too long"),
    ],
)
def test_what_the_file_system_refuses_is_one_line(monkeypatch, capsys, error, said):
    def refuse(*args, **settings):
        raise error

    monkeypatch.setattr("calmix.cli.app.app", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["train"])
    line = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in line and line.count("\n") == 1 and len(line) < 300


def test_other_errors_of_the_system_stay_loud(monkeypatch):
    def refuse(*args, **settings):
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("calmix.cli.app.app", refuse)
    with pytest.raises(OSError, match="Bad file descriptor"):
        main(["train"])
