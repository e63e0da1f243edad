"""Run the commands of a documentation page, and put what they print below them.

    python docs/execute.py docs/first_use.md                 run the page, write its output into it
    python docs/execute.py docs/first_use.md --small MODEL   run it with a tiny network, write nothing

A page is its own source. In a `console` block a line that begins with `$ ` is a command (a backslash at its
end continues it), and what follows, up to the next command or the end of the block, is its output. Commands
of `bash` blocks are run, too; they have no output. `python` blocks run in one namespace. Everything happens
in one empty directory, in the order of the page. A command that fails ends the run, unless the page says
`# exit code 2` behind it. Blocks that install something (`pip`, `make`) are not run.

Left out of the output: progress, which a terminal shows as a bar that disappears.

A test runs all pages with `--small`: few rows, one epoch and a network of random weights. It proves that
every command of the documentation works, not what it prints.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FENCE = re.compile(r"^```(console|bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRESS = re.compile(r": step \d+ of \d+$|^(predict|ood).*: \d+ of \d+ rows$")
INSTALLS = ("pip ", "make ", "git ")
EXPECTED_CODE = re.compile(r"\s+# exit code (\d)$")
WIDTH = 80
SMALL_DATA = ["--rows", "90", "--sentences", "50"]
# What a small run adds to the verbs that train.
SMALL = {
    "train": "--epochs 2",
    "compare": "--epochs 1 --threads 1 --seeds 0 --executor inline",
    "distill": "--epochs 2",
}


class PageError(Exception):
    """A command of a page that did not do what the page says."""


@dataclass
class Command:
    """One command of a console block, as written, and its output."""

    text: str
    output: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        return EXPECTED_CODE.sub("", self.text.replace("\\\n", " "))

    @property
    def code(self) -> int:
        """The exit code that the page announces."""
        found = EXPECTED_CODE.search(self.text)
        return int(found[1]) if found else 0


def commands_of(block: str) -> list[Command]:
    r"""The commands of a console block.

    >>> [(c.line, c.output) for c in commands_of("$ ls \\\n  a\nfile\n$ false  # exit code 1\n")]
    [('ls    a', ['file']), ('false', [])]
    """
    commands: list[Command] = []
    continued = False
    for line in block.splitlines():
        if continued:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(line[2:]))
        else:
            commands[-1].output.append(line)
            continue
        continued = line.endswith("\\")
    return commands


Runner = Callable[[str], tuple[int, str]]


def run_page(page: Path, run: Runner, keep: Callable[[str], object] = lambda text: None) -> str:
    """The page with what its commands print now; `keep` is given it after every block."""
    namespace: dict[str, object] = {}

    def executed(found: re.Match[str]) -> str:
        language, block = found[1], found[2]
        if block.startswith(INSTALLS):
            return found[0]
        if language == "python":
            exec(compile(block, str(page), "exec"), namespace)
            return found[0]
        if language == "bash":
            block = re.sub(r"^(?=\S)", "$ ", block, flags=re.MULTILINE)
        shown = []
        for command in commands_of(block):
            code, output = run(command.line)
            if code != command.code:
                raise PageError(f"{page.name}: exit code {code} of\n  {command.line}\n{output}")
            shown += [f"$ {command.text}", *shown_lines(output)]
        return found[0] if language == "bash" else "```console\n" + "\n".join(shown) + "\n```"

    text, done = page.read_text(encoding="utf-8"), ""
    while found := FENCE.search(text):
        done += text[: found.start()] + executed(found)
        text = text[found.end() :]
        keep(done + text)
    return done + text


def shown_lines(output: str) -> Iterator[str]:
    """Without progress and without blanks at the ends of lines.

    >>> list(shown_lines("plain: step 3 of 9\\nmodel:  run/model  \\n\\n"))
    ['model:  run/model']
    """
    lines = [line.rstrip() for line in output.rstrip().splitlines() if not PROGRESS.search(line)]
    yield from lines


def in_processes(line: str) -> tuple[int, str]:
    """As a user runs it: a process of its own, standard output and standard error as they come."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        line.replace("python docs/", f"{sys.executable} {DOCS}/"),
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout


def in_this_process(model: Path) -> Runner:
    """Small: a tiny network in place of the default, one epoch, few rows; torch is loaded once for all."""

    def run(line: str) -> tuple[int, str]:
        program, *arguments = shlex.split(line, comments=True)
        if program not in ("calmix", "python"):
            return in_processes(line)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if program == "python":
                code = _run_script(DOCS / Path(arguments[0]).name, [*arguments[1:], *SMALL_DATA])
            else:
                code = _run_calmix(_smaller(arguments, model))
        return code, printed.getvalue()

    return run


def _smaller(arguments: list[str], model: Path) -> list[str]:
    verb = arguments[0] if arguments else ""
    if verb not in SMALL or {"-h", "--help", "--resume", "--from"} & set(arguments):
        return arguments
    given = [str(model) if argument == "default" else argument for argument in arguments]
    named = [] if verb == "distill" or "--model" in given else ["--model", str(model)]
    smaller = SMALL[verb].split()
    kept, skip = [], False
    for argument in given:  # epochs and seeds of the page do not count here
        replaced = argument.startswith("--") and argument in smaller
        skip, kept = replaced, kept if skip or replaced else [*kept, argument]
    return [*kept, *named, *smaller]


def _run_calmix(arguments: list[str]) -> int:
    from calmix.cli.app import main

    try:
        main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _run_script(script: Path, arguments: list[str]) -> int:
    before = sys.argv
    sys.argv = [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        return int(bool(ended.code))
    finally:
        sys.argv = before
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--small", type=Path, metavar="MODEL", help="a tiny checkpoint; nothing is written")
    given = parser.parse_args()
    for page in [page.resolve() for page in given.pages]:
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            if given.small:
                run_page(page, in_this_process(given.small))
            else:
                run_page(page, in_processes, keep=page.write_text)


if __name__ == "__main__":
    main()
