"""`calmix methods`: the list of methods."""

from __future__ import annotations

import dataclasses

from calmix.cli.options import AsJson, print_json


def methods(as_json: AsJson = False) -> None:
    """List the methods: what each mixes, what it needs, and who proposed it.

    Example: calmix methods
    """
    from calmix.mixing.catalogue import method_cards
    from calmix.mixing.needs import describe

    listed = [{**dataclasses.asdict(card), "needs": describe(card.needs)} for card in method_cards().values()]
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
        place = "" if method["mix_point"] == "–" else f"\nmixes at: {method['mix_point']}"
        table.add_row(method["name"], method["summary"] + place, method["needs"], method["citation"])
    Console().print(table)
