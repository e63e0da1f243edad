"""Every command of the documentation works: each page is run with a tiny network."""

import contextlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from execute import PageError, commands_of, in_this_process, run_page, shown_lines  # noqa: E402

PAGES = ["first_use.md"]


@pytest.mark.trains
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page, encoders, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "place"
    place.mkdir()
    with contextlib.chdir(place):
        made = run_page(ROOT / "docs" / page, in_this_process(encoders("bert", layers=3)))
    written = (ROOT / "docs" / page).read_text()
    assert commands(made) == commands(written)
    for block in console_blocks(made):
        silent = [one.line for one in commands_of(block) if one.line.startswith("calmix") and not one.output]
        assert not silent, "a verb says what it did"


def test_a_command_that_fails_fails_its_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ calmix evaluate nothing.csv\n```\n")
    with pytest.raises(PageError, match="exit code 2"):
        run_page(page, in_this_process(tmp_path))
    page.write_text("```console\n$ calmix evaluate nothing.csv  # exit code 2\n```\n")
    assert "nothing.csv: no such file" in run_page(page, in_this_process(tmp_path))


def test_output_is_replaced_and_progress_left_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```console\n$ one \\\n  two\nold\n$ three\n```\n\nmore\n")
    ran = []

    def run(line):
        ran.append(line.split())
        return 0, f"plain: step 3 of 9\n{line.split()[0]}!   \n"

    assert run_page(page, run) == (
        "text\n\n```console\n$ one \\\n  two\none!\n$ three\nthree!\n```\n\nmore\n"
    )
    assert ran == [["one", "two"], ["three"]]
    assert list(shown_lines("a  \n\nb\n\n")) == ["a", "", "b"]


def console_blocks(text: str) -> list[str]:
    return [part.split("```")[0] for part in text.split("```console\n")[1:]]


def commands(text: str) -> list[str]:
    return [command.text for block in console_blocks(text) for command in commands_of(block)]


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)|!\[[^\]]*\]\(([^)\s]+)\)")
READ_ON_GITHUB = [*ROOT.glob("*.md"), *(ROOT / "results").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]


@pytest.mark.parametrize("page", READ_ON_GITHUB, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    """Those of `docs/` are checked by the build, where a broken one is a warning, and a warning an error."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [first or second for first, second in LINK.findall(text)]
    inside = [one for one in targets if not one.startswith(("http://", "https://", "mailto:"))]
    assert [one for one in inside if not (page.parent / one).exists()] == []
