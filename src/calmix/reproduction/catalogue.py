"""The presets that come with calmix, by paper and place, and the nearest names of a wrong one."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

import yaml

from calmix.reproduction.loading import load_preset
from calmix.reproduction.preset import Preset
from calmix.user_error import UserError

PRESETS = Path(__file__).parent / "presets"
PAPERS_FILE = PRESETS / "papers.yaml"


@cache
def papers() -> dict[str, str]:
    """The papers in the order of their years: key and citation."""
    return dict(yaml.safe_load(PAPERS_FILE.read_text(encoding="utf-8")))


@cache
def preset_names() -> tuple[str, ...]:
    """All names, PAPER/PLACE: paper by paper, tables before figures."""

    def order(name: str) -> tuple[bool, bool, str]:
        return not name.startswith("table"), not name.startswith("figure"), name

    return tuple(
        f"{paper}/{name}"
        for paper in papers()
        for name in sorted((file.stem for file in (PRESETS / paper).glob("*.yaml")), key=order)
    )


def find_preset(name: str) -> Preset:
    """The preset of a name PAPER/PLACE or of a YAML file."""
    if name in preset_names():
        return load_preset(PRESETS / f"{name}.yaml", name)
    if Path(name).suffix in (".yaml", ".yml"):
        return load_preset(Path(name))
    listed = [one for one in preset_names() if one.startswith(f"{name}/")]
    near = listed or difflib.get_close_matches(name, preset_names(), n=3, cutoff=0.4)
    remedy = f"did you mean {' or '.join(near)}?" if near else "see 'calmix reproduce --list'"
    raise UserError(f"no preset {name!r}", remedy=remedy)


def all_presets() -> list[Preset]:
    return [find_preset(name) for name in preset_names()]
