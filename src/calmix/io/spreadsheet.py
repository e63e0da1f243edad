"""Cells for spreadsheets: in a csv that people open, a text must not be run as a formula.

A text that starts with = + - @, a tab or a carriage return gets an apostrophe in front; a plain number such
as -5 does not. Files that programs read back (predictions, parquet) hold the text as it is.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

FORMULA = r"^[=+\-@\t\r]"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def spreadsheet_safe(table: pa.Table) -> pa.Table:
    """The table with its texts escaped; numbers stay numbers, below 0 too.

    >>> table = pa.table({"label": ["=1+1", "good", None], "score": [-1.0, 2.0, 3.0]})
    >>> spreadsheet_safe(table).to_pylist()[0]
    {'label': "'=1+1", 'score': -1.0}
    """
    for place, column in enumerate(table.columns):
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            text = column.cast(kind)
            is_formula = pc.and_(
                pc.match_substring_regex(text, FORMULA), pc.invert(pc.match_substring_regex(text, NUMBER))
            )
            escaped = pc.if_else(is_formula, pc.binary_join_element_wise("'", text, ""), text)
            table = table.set_column(place, table.column_names[place], escaped)
    return table.rename_columns([safe_cell(name) for name in table.column_names])


def safe_cell(text: str) -> str:
    """
    >>> safe_cell("=cmd|' /C calc'!A0"), safe_cell("arm")
    ("'=cmd|' /C calc'!A0", 'arm')
    """
    return f"'{text}" if re.match(FORMULA, text) and not re.match(NUMBER, text) else text
