"""Ways to damage a file: its bytes, its structure, its values. All random draws come from one generator."""

from __future__ import annotations

import csv
import io
import json
from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

# Values that a record, a column or an array does not expect.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**63, 2**64, -(2**70), 1e308, -1e-308, float("nan"),
    float("inf"), "", " ", "a", "\x00", "é", "\ud800", "../../x", "/etc/passwd", "=1+1", "\x1b[31m",
    "a" * 300,
    "nan", "1e999", "2021-13-45", "null", "<script>", [], [[]], [None], [1, "a"], {}, {"a": 1}, {"": None},
)  # fmt: skip
PIECES = (
    b"", b"\x00", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"'", b",", b"\n", b"\r",
    b"\t",
    b"{", b"}", b"[", b"]" * 3, b"[" * 3000, b"9" * 5000, b"nan", b"-inf", b"\\ud800", b"\x7f\xff\xff\xff",
    b"\xff" * 8, b"\x00" * 16, b"!!python/object:os.system", b"&a *a", b"1e999", b"PK\x03\x04", b"PAR1",
)  # fmt: skip


def mutate(content: bytes, extension: str, random: Random) -> bytes:
    """A damaged form of a file's content."""
    kinds = [mutate_bytes]
    if extension in STRUCTURES:
        kinds += [STRUCTURES[extension]] * 2
    changed = random.choice(kinds)(content, random)
    return mutate_bytes(changed, random) if random.random() < 0.1 else changed


def mutate_bytes(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        place = random.randrange(len(changed) + 1)
        end = min(len(changed), place + random.choice((1, 2, 4, 8, 64, 1000)))
        match random.randrange(6):
            case 0 if changed:
                changed[min(place, len(changed) - 1)] ^= 1 << random.randrange(8)
            case 1 if changed:
                changed[min(place, len(changed) - 1)] = random.randrange(256)
            case 2:
                changed[place:place] = random.choice(PIECES)
            case 3:
                del changed[place:end]
            case 4:
                changed[place:place] = changed[place:end]
            case _:
                if random.random() < 0.4:
                    del changed[place:]
                else:
                    changed[place:end] = random.choice(PIECES)
    return bytes(changed)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a nested one."""
    found = [path]
    if isinstance(value, dict):
        items: Any = value.items()
    else:
        items = enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def mutate_tree(value: Any, random: Random) -> Any:
    """A nested value with some of its values replaced, removed, wrapped or renamed."""
    root = {"": value}
    for _ in range(random.choice((1, 1, 2, 4))):
        path = random.choice(places(root)[1:] or [("",)])
        owner: Any = root
        for key in path[:-1]:
            owner = owner[key]
        key = path[-1]
        match random.randrange(4):
            case 0 if len(path) > 1:
                del owner[key]
            case 1:
                owner[key] = random.choice(([owner[key]], {"a": owner[key]}, str(owner[key])[:1000]))
            case 2 if isinstance(owner, dict) and len(path) > 1:
                owner[random.choice(("a", "", "../x", "\x1b[0m", str(key).upper()))] = owner.pop(key)
            case _:
                owner[key] = deepcopy(random.choice(ODD))
    return root[""]


def mutate_json(content: bytes, random: Random) -> bytes:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_bytes(content, random)
    return json.dumps(mutate_tree(value, random)).encode()


def mutate_json_lines(content: bytes, random: Random) -> bytes:
    lines = content.splitlines()
    for _ in range(random.choice((1, 1, 3))):
        place = random.randrange(len(lines))
        lines[place] = mutate_json(lines[place], random)
    return b"\n".join(lines) + b"\n"


def mutate_yaml(content: bytes, random: Random) -> bytes:
    try:
        value = yaml.safe_load(content)
        return yaml.safe_dump(mutate_tree(value, random), sort_keys=False).encode(errors="surrogatepass")
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return mutate_bytes(content, random)


def mutate_csv(content: bytes, random: Random) -> bytes:
    rows = list(csv.reader(io.StringIO(content.decode(errors="replace"))))
    for _ in range(random.choice((1, 1, 3))):
        row = random.choice(rows)
        if not row:
            continue
        cell = random.randrange(len(row))
        match random.randrange(4):
            case 0:
                del row[cell]
            case 1:
                row.insert(cell, str(random.choice(ODD)))
            case 2:
                rows[0][:] = random.choice((rows[0] * 2, [], rows[0][::-1], ["label"] * len(rows[0])))
            case _:
                row[cell] = str(random.choice(ODD))
    sink = io.StringIO()
    csv.writer(sink).writerows(rows)
    return sink.getvalue().encode(errors="surrogatepass").replace(b"\x00", b"")


KINDS = (
    pa.string(), pa.large_string(), pa.binary(), pa.int8(), pa.uint64(), pa.int64(), pa.float16(),
    pa.float64(), pa.bool_(), pa.null(), pa.date32(), pa.timestamp("ns"), pa.duration("s"),
    pa.decimal128(30, 2), pa.list_(pa.float64()), pa.list_(pa.string()), pa.struct([("a", pa.int64())]),
    pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


def odd_array(rows: int, random: Random) -> pa.Array:
    kind = random.choice(KINDS)
    values = [random.choice(ODD) for _ in range(rows)]
    for candidate in (values, [random.choice(ODD)] * rows, [random.randrange(9)] * rows, [None] * rows):
        try:
            return pa.array(candidate, type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
    return pa.nulls(rows)


def mutate_parquet(content: bytes, random: Random) -> bytes:
    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError):
        return mutate_bytes(content, random)
    place = random.randrange(table.num_columns)
    name = table.column_names[place]
    match random.randrange(6):
        case 0:
            table = table.remove_column(place)
        case 1:
            table = table.append_column(name, table.column(place))
        case 2:
            table = table.slice(0, random.choice((0, 1, 2)))
        case 3:
            metadata = {
                key: mutate_json(value, random) for key, value in (table.schema.metadata or {}).items()
            }
            table = table.replace_schema_metadata(metadata)
        case 4:  # single values of the column
            values = table.column(place).to_pylist()
            for _ in range(random.choice((1, 3))):
                inner = random.randrange(max(len(values), 1))
                if values:
                    values[inner] = mutate_tree(values[inner], random)
            try:
                table = table.set_column(place, name, pa.array(values))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                table = table.set_column(place, name, odd_array(len(table), random))
        case _:
            table = table.set_column(place, name, odd_array(len(table), random))
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink)
    except (pa.ArrowException, UnicodeError):
        return mutate_bytes(content, random)
    return sink.getvalue()


def mutate_npz(content: bytes, random: Random) -> bytes:
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = random.choice(sorted(arrays))
    array = arrays[name]
    shape = random.choice((array.shape, array.shape[:1], (*array.shape, 1), (0,), (), (1,)))
    kind = random.choice(("f8", "i8", "u1", "U3", "S2", "c16", "b1", "M8[s]", "f2", "O"))
    with np.errstate(all="ignore"):
        arrays[name] = np.zeros(shape).astype("i8").astype(kind) if kind != "O" else np.array([{}], object)
    if random.random() < 0.2:
        del arrays[name]
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


STRUCTURES = {
    ".json": mutate_json,
    ".jsonl": mutate_json_lines,
    ".yaml": mutate_yaml,
    ".csv": mutate_csv,
    ".parquet": mutate_parquet,
    ".npz": mutate_npz,
}
