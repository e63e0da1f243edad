"""The pages that are made from the code: methods, command line, Python names, results, changes.

They are written to `docs/generated/` before Sphinx reads its sources; nothing there is edited by hand.
A method's page is its declaration, the docstring of its file, and what `docs/methods/NAME.md` says about it.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"
METHODS = ROOT / "src" / "calmix" / "mixing" / "methods"


def main() -> None:
    shutil.rmtree(GENERATED, ignore_errors=True)
    for name, text in pages():
        path = GENERATED / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip() + "\n", encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text of every page."""
    yield from method_pages()
    yield "command_line", command_line_page()
    yield "options", options_page()
    yield "python", python_page()
    for readme in sorted((ROOT / "results").glob("*/README.md")):
        yield f"results/{readme.parent.name}", without_file_links(readme.read_text(encoding="utf-8"))
    yield "changes", without_file_links((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    yield "contributing", without_file_links((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def method_pages() -> Iterator[tuple[str, str]]:
    from calmix.mixing.catalogue import method_cards

    files = {name_of(file): file for file in METHODS.glob("*.py")}
    for name, card in method_cards().items():
        if name not in files:  # of another package
            continue
        about = inspect.cleandoc(ast.get_docstring(ast.parse(files[name].read_text(encoding="utf-8"))) or "")
        facts = {
            "pairs": escape(card.pairs),
            "mix point": escape(card.mix_point),
            "needs": escape(", ".join(card.needs) or "nothing but the rows"),
            "paper": f"{escape(card.citation)} ([references](../../references.md))" if card.citation else "–",
        }
        table = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
        options = "\n".join(
            f"| `{option}` | `{default}` |" for option, default in sorted(card.options.items())
        )
        yield (
            f"methods/{name}",
            f"# {name}\n\n{card.summary[0].upper()}{card.summary[1:]}.\n\n| | |\n|---|---|\n{table}\n\n"
            f"{note_of(name)}\n\n"
            f"## How it works\n\n{prose(about)}\n\n"
            "## Use\n\n```bash\n"
            f"calmix train --method {name} --train train.csv --test test.csv --output run\n```\n\n"
            + (
                f"| option | default |\n|---|---|\n{options}\n\nGive one with `--method-option NAME=VALUE`; "
                "`--alpha` and `--label-smoothing` have flags of their own.\n"
                if options
                else ""
            ),
        )


def name_of(file: Path) -> str:
    """The name that the class of a method's file declares; empty where there is none."""
    found = re.search(r'name: ClassVar\[str\] = "([^"]+)"', file.read_text(encoding="utf-8"))
    return found[1] if found else ""


def note_of(name: str) -> str:
    """When the method helped in our results: written by hand."""
    note = DOCS / "methods" / f"{name}.md"
    return note.read_text(encoding="utf-8").strip() if note.is_file() else ""


def prose(docstring: str) -> str:
    """A docstring as Markdown: indented paragraphs are formulas or tables, and stay as they are.

    >>> prose("Mixes rows.\\n\\n    x = a + b\\n\\nMore.")
    'Mixes rows.\\n\\n```text\\nx = a + b\\n```\\n\\nMore.'
    """
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if paragraph.startswith(("    ", ">>>")) or "\n    " in paragraph:
            paragraphs.append("```text\n" + inspect.cleandoc(paragraph) + "\n```")
        else:
            paragraphs.append(escape(paragraph))
    return "\n\n".join(paragraphs)


def escape(text: str) -> str:
    """Text outside of backticks shows its characters; what is in backticks is code anyway.

    >>> escape("a*b and `c*d`, <e>")
    'a\\\\*b and `c*d`, \\\\<e>'
    """
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<\[\]$|#])", r"\\\1", part) for part in parts
    )


def command_line_page() -> str:
    """Every verb with its options, as `--help` groups them."""
    import typer

    from calmix.cli.app import app

    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    text = ["# Command line", "Every verb answers to `-h`. `--json` prints one object on standard output."]
    for name, verb in verbs.items():
        text.append(f"## calmix {name}\n\n{help_text(verb.help or '')}")
        panels: dict[str, list[Any]] = {}
        for parameter in verb.params:
            if getattr(parameter, "hidden", False):
                continue
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(parameter)
        for panel, parameters in panels.items():
            rows = "\n".join(option_row(parameter) for parameter in parameters)
            text.append(f"**{panel}**\n\n| | |\n|---|---|\n{rows}")
    return "\n\n".join(text)


def help_text(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(
        f"```text\n{paragraph.removeprefix('Example: ')}\n```"
        if paragraph.startswith("Example: ")
        else escape(paragraph)
        for paragraph in paragraphs
    )


def option_row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    about = escape(" ".join((getattr(parameter, "help", None) or "").split()))
    default = parameter.default
    if default not in (None, False, (), []) and not callable(default):
        about += f" Default: `{default}`."
    return f"| {names} | {about} |"


def options_page() -> str:
    """Every option of a training run, with those of configuration files."""
    from calmix.training.configuration import OPTIONS
    from calmix.training.options import reference

    intended = "Of `calmix train`, `distill` and `compare`, in `--config` files and as arguments in Python."
    return f"# Options of training\n\n{intended}\n\n{reference(OPTIONS)}"


def python_page() -> str:
    """Every public name: where it is defined, how it is called, what it says about itself."""
    import calmix

    text = [
        "# Python names",
        "Everything here is `from calmix import NAME`. Names are loaded when they are used: metrics and "
        "calibrators never load torch.",
    ]
    by_package: dict[str, list[str]] = {}
    for name in calmix.__all__:
        home = calmix._HOME[name].split(".")
        by_package.setdefault(home[1] if len(home) > 1 else "calmix", []).append(name)
    for package, names in sorted(by_package.items()):
        text.append(f"## {package}")
        text.extend(name_section(name, getattr(calmix, name)) for name in sorted(names))
    return "\n\n".join(text)


def name_section(name: str, found: Any) -> str:
    section = [f"### {name}"]
    if callable(found):
        try:
            signature = str(inspect.signature(found))
        except (TypeError, ValueError):
            signature = "(...)"
        kind = "class " if inspect.isclass(found) else ""
        section.append(f"```python\n{kind}{name}{short(signature)}\n```")
        section.append(prose(inspect.getdoc(found) or ""))
    if inspect.isclass(found):
        for member, value in vars(found).items():
            if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
                continue
            first = (inspect.getdoc(value) or "").split("\n\n")[0]
            if first:
                section.append(f"`{name}.{member}`: {escape(' '.join(first.split()))}")
    return "\n\n".join(part for part in section if part)


def short(signature: str) -> str:
    """Names of types without their modules, arguments on lines of their own where there are many."""
    plain = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", signature).replace("'", "")
    if len(plain) <= 90:
        return plain
    return plain.replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def without_file_links(text: str) -> str:
    """Links to files of the repository become their names; links to the web and within the page stay."""

    def plain(found: re.Match[str]) -> str:
        label, target = found[1], found[2]
        if target.startswith(("http", "#")):
            return found[0]
        return f"{label} (`{target}`)" if label.strip("`") not in target else f"`{target}`"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", plain, re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text))


if __name__ == "__main__":
    main()
