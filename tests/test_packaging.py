"""What `pip install calmix` brings: every file of the package, tested bounds, nothing of the clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    name: listed
    for name, listed in PROJECT["optional-dependencies"].items()
    if name not in ("bench", "dev", "docs")  # of those who work on calmix
}
REQUIREMENTS = sorted({*PROJECT["dependencies"], *(one for listed in EXTRAS.values() for one in listed)})
# In a process of its own: it writes down every file that is opened below the clone.
WATCHED = """
import sys
from pathlib import Path
clone, opened = sys.argv[1], []
sys.addaudithook(lambda event, call: opened.append(str(call[0])) if event == "open" else None)
sys.argv[:] = ["calmix", *sys.argv[2:]]
import calmix
from calmix.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(calmix.__file__, file=sys.stderr)
print(*(name for name in opened if name.startswith(clone)), sep="\\n", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built by the backend itself, without an environment of its own."""
    hatchling = pytest.importorskip("hatchling.build")
    place = tmp_path_factory.mktemp("wheel")
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return place / hatchling.build_wheel(str(place))
    finally:
        os.chdir(before)


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        names = {
            name.partition(".dist-info/")[2]
            for name in archive.namelist()
            if name.endswith(("LICENSE", ".txt"))
        }
    source = ROOT / "src"
    files = (file for file in (source / "calmix").rglob("*") if file.is_file() and file.suffix != ".pyc")
    assert packed == {file.relative_to(source).as_posix() for file in files}
    assert {"calmix/py.typed", "calmix/__init__.pyi", "calmix/report/templates/page.js"} <= packed
    assert {"licenses/LICENSE", "entry_points.txt"} <= names


@pytest.mark.processes
@pytest.mark.parametrize(
    "arguments", ["--help", "methods --json", "reproduce --list", "evaluate FILE --json"]
)
def test_the_packed_files_work_without_the_clone(wheel, tmp_path, arguments):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (tmp_path / "predictions.csv").write_text("label,prob_a,prob_b\na,0.9,0.1\nb,0.4,0.6\n")
    words = [str(tmp_path / "predictions.csv") if word == "FILE" else word for word in arguments.split()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, str(ROOT / "src"), *words],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    place, *of_the_clone = ended.stderr.strip().splitlines()
    assert place == str(tmp_path / "installed" / "calmix" / "__init__.py")
    assert of_the_clone == []


def test_the_version_and_the_linter_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    source = (ROOT / "src" / "calmix" / "__init__.py").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f'\n__version__ = "{PROJECT["version"]}"\n' in source
    ruff = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    assert ruff is not None
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"ruff-pre-commit\n    rev: v{ruff[1]}\n" in hooks


@pytest.mark.parametrize("requirement", [one for one in REQUIREMENTS if not one.startswith("calmix[")])
def test_every_dependency_has_a_lower_and_an_upper_bound(requirement):
    assert re.fullmatch(r"[\w.-]+(==[\d.]+|>=[\d.]+,<[\d.]+)", requirement)


def test_the_lowest_versions_are_those_that_are_tested():
    """`make test-lowest` installs exactly the lower bounds; of torch, the file says why it does not."""
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    bounds = dict(one.split(",")[0].split(">=") for one in REQUIREMENTS if ">=" in one)
    assert pinned.keys() == bounds.keys() - {"ray"}
    for name, version in pinned.items():
        if name != "torch":
            assert version.removesuffix(".0").removesuffix(".0") == bounds[name].removesuffix(".0"), name


def test_tested_versions_are_within_the_bounds():
    packaging = pytest.importorskip("packaging.requirements")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {
        name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)
    }
    for text in REQUIREMENTS:
        requirement = packaging.Requirement(text)
        if requirement.name != "calmix":
            assert requirement.specifier.contains(pinned[requirement.name]), text
