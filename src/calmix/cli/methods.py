"""`calmix methods`: what there is to choose from."""

from __future__ import annotations

import dataclasses

from calmix.cli.options import AsJson, print_json


def methods(as_json: AsJson = False) -> None:
    """List the methods: what each mixes, what it needs, and who proposed it.

    Example: calmix methods
    """
    from calmix.mixing.method import method_classes

    listed = [
        {
            "name": cls.name,
            "summary": cls.summary,
            "pairs": cls.pairs,
            "seam": cls.seam,
            "needs": cls.needs,
            "options": {option.name: option.default for option in dataclasses.fields(cls)},
            "citation": cls.citation,
        }
        for cls in method_classes().values()
    ]
    if as_json:
        print_json({"methods": listed})
        return

    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=True, header_style="bold")
    for title in ("method", "what it does", "pairs", "seam", "needs", "reference"):
        table.add_column(title, overflow="fold")
    for method in listed:
        table.add_row(
            *(str(method[key]) for key in ("name", "summary", "pairs", "seam", "needs", "citation"))
        )
    Console().print(table)
