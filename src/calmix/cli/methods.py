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

    table = Table(box=None, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("method", no_wrap=True)
    for title in ("what it does", "needs", "reference"):
        table.add_column(title)
    for method in listed:
        table.add_row(*(str(method[key]) for key in ("name", "summary", "needs", "citation")))
    Console().print(table)
