"""Comma- and tab-separated tables, streamed block by block; what is wrong is named by row and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from calmix.user_error import UserError

# Bytes parsed at a time. The first block decides the kinds of the columns.
BLOCK_BYTES = 1 << 24
SCORE_PREFIXES = ("logit_", "prob_")
CONVERSION = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value (.*)")


def separated_batches(file: Path, delimiter: str) -> Iterator[pa.Table]:
    """The table of a csv or tsv file, gzipped or not, in pieces of about `BLOCK_BYTES`."""
    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "error"

    names: list[str] = []
    try:
        with _opened(file, delimiter, note) as reader:
            names, kinds = reader.schema.names, _kinds(reader.schema)
        with _opened(file, delimiter, note, kinds) as reader:
            yielded = False
            for batch in reader:
                yielded = True
                yield pa.Table.from_batches([batch])
            if not yielded:
                yield reader.schema.empty_table()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise _complaint(file, " ".join(str(error).split()), names, uneven) from None


def _opened(
    file: Path, delimiter: str, note: Callable[[Any], str], kinds: dict[str, pa.DataType] | None = None
) -> Any:
    return pa.csv.open_csv(
        pa.input_stream(str(file), compression="detect"),
        parse_options=pa.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
        ),
        read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES),
        # A "nan" is a number that is refused as such, not a gap in the table.
        convert_options=pa.csv.ConvertOptions(
            null_values=["", "NA", "null", "NULL"], column_types=kinds or {}
        ),
    )


def _kinds(schema: pa.Schema) -> dict[str, pa.DataType]:
    """What the first block alone gets wrong: scores that begin with whole numbers may go on with fractions,
    and a row id such as 007 is a name."""
    kinds = {
        field.name: pa.float64()
        for field in schema
        if field.name.startswith(SCORE_PREFIXES)
        and (pa.types.is_integer(field.type) or pa.types.is_null(field.type))
    }
    return kinds | ({"row_id": pa.string()} if "row_id" in schema.names else {})


def _complaint(file: Path, said: str, names: list[str], uneven: list[Any]) -> UserError:
    """What Arrow stumbled over. It counts the header as a row."""
    if uneven:
        fields, header = uneven[0].actual_columns, uneven[0].expected_columns
        return UserError(
            f"malformed row: {fields} {'field' if fields == 1 else 'fields'} where the header has {header}",
            file=file,
            row=None if uneven[0].number is None else uneven[0].number - 1,
            remedy="quote values that hold the separator, and close every quote",
        )
    if found := CONVERSION.search(said):
        place = int(found[1])
        return UserError(
            f"{found[3]:.60} does not go with the values before it",
            file=file,
            row=int(found[2]) - 1,
            column=names[place] if place < len(names) else None,
            remedy="write the same kind of value in every row",
        )
    return UserError(f"malformed table ({said:.200})", file=file, remedy="write or copy the file again")
