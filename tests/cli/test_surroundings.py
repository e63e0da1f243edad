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


def scores(tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("label,prob_0,prob_1\n" + "0,.9,.1\n1,.2,.8\n0,.3,.7\n" * 20)
    return file


@pytest.mark.processes
def test_the_c_locale_gets_every_line(tmp_path):
    file = scores(tmp_path)
    # Python encodes standard output as ASCII with surrogateescape there, which knows no minus sign.
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    done = subprocess.run(
        [sys.executable, "-m", "calmix", "evaluate", str(file), str(file)],
        capture_output=True,
        env={**environment, **settings},
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert b"\\u2212" in done.stdout


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="pipes of a shell")
@pytest.mark.parametrize(
    ("redirected", "code"),
    [("| true", 141), (">&-", 0), (">&- 2>&- <&-", 0), ("> /dev/full", 2)],
    ids=["reader has left", "closed output", "everything closed", "full"],
)
def test_an_output_that_nobody_reads_ends_without_a_traceback(tmp_path, redirected, code):
    file = scores(tmp_path)
    command = f"{sys.executable} -m calmix evaluate {file} {file} --no-intervals --json {redirected}"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == (1 if code == 2 else 0)


def test_without_a_home_directory_the_remedy_is_named(monkeypatch):
    from pathlib import Path

    from calmix.runtime.cache_directory import CACHE_VARIABLE, cache_directory
    from calmix.user_error import UserError

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv(CACHE_VARIABLE)
    with pytest.raises(UserError, match=r"no home directory .* CALMIX_CACHE"):
        cache_directory()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"), "could not be"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "no space left on the disk"),
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
