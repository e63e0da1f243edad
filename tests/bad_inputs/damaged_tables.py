"""Tables that no reader should take: by name, the bytes of a file that is wrong in one way."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DEEP = 100_000


def parquet(columns, metadata=None) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if metadata:
        table = table.replace_schema_metadata(metadata)
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def header(shape: str) -> str:
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}"


def twice(*names: str) -> pa.Table:
    """Columns of the given names, equal ones included."""
    return pa.Table.from_arrays([pa.array(["a", "b"]) for _ in names], names=list(names))


def bad_utf8(*names: str) -> pa.Table:
    """Strings whose bytes are none."""
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(struct.pack("<iii", 0, 1, 2)), pa.py_buffer(b"\xff\xfe")]
    )
    good = pa.array(["a", "b"])
    return pa.Table.from_arrays(
        [broken if name.isupper() else good for name in names], names=[name.lower() for name in names]
    )


NOTHING = {
    "empty.csv": b"",
    "blank.csv": b"\n\n\n",
    "bom.csv": b"\xef\xbb\xbf",
    "bom-line.csv": b"\xef\xbb\xbf\n",
    "nul.csv": b"\x00" * 64,
    "binary.csv": bytes(range(256)) * 4,
    "utf16.csv": "text,label\na,b\n".encode("utf-16"),
    "not-gzip.csv.gz": b"text,label\n",
    "torn.csv.gz": gzip.compress(b"text,label\na,b\n" * 1000)[:40],
    "empty.csv.gz": b"",
    "empty.tsv": b"",
    "empty.json": b"",
    "empty.jsonl": b"",
    "empty.parquet": b"",
    "word.json": b"word",
    "null.json": b"null",
    "number.json": b"3",
    "string.json": b'"a"',
    "list-of-numbers.json": b"[1, 2]",
    "empty-list.json": b"[]",
    "nulls.json": b"[null]",
    "object.json": b"{}",
    "torn.json": b'[{"text": "a"',
    "deep.json": b"[" * DEEP,
    "deep-closed.json": b"[" * DEEP + b"]" * DEEP,
    "deep-object.json": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "null.jsonl": b"null\n",
    "number.jsonl": b"1\n",
    "list.jsonl": b"[1]\n",
    "torn.jsonl": b'{"text": "a", \n',
    "deep.jsonl": b"[" * DEEP + b"\n",
    "deep-closed.jsonl": b'{"text": ' + b"[" * DEEP + b"]" * DEEP + b', "label": 1}\n',
    "latin.jsonl": '{"text": "é", "label": "a"}\n'.encode("latin-1"),
    "word.parquet": b"word",
    "torn.parquet": parquet({"text": ["a"] * 100, "label": ["b"] * 100})[:-30],
    "magic.parquet": b"PAR1" + b"\xff" * 300 + b"PAR1",
    "no-columns.parquet": parquet(pa.table({})),
    "no-rows.parquet": parquet({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}),
    "header-only.csv": b"text,label\n",
}  # fmt: skip

TRAINING = NOTHING | {
    "no-label.csv": b"text,other\na,b\nc,d\n",
    "no-text.csv": b"words,label\na,b\nc,d\n",
    "same-column.csv": b"text,text,label\na,b,c\nd,e,f\n",
    "uneven.csv": b"text,label\na,b\nc\n",
    "too-many.csv": b"text,label\na,b\nc,d,e\n",
    "unclosed.csv": b'text,label\n"a,b\nc,d\n',
    "after-quote.csv": b'text,label\n"a"x,b\nc,d\n',
    "one-class.csv": b"text,label\na,x\nb,x\nc,x\nd,x\n",
    "empty-text.csv": b"text,label\n,x\nb,y\nc,x\nd,y\n",
    "empty-label.csv": b"text,label\na,\nb,y\nc,x\nd,y\n",
    "latin.csv": "text,label\né,x\nb,y\n".encode("latin-1"),
    "big-number.json": b'[{"text": "a", "label": ' + b"1" * 5000 + b"}]",
    "big-number.jsonl": b'{"text": "a", "label": ' + b"1" * 5000 + b"}\n",
    "nested-text.jsonl": b'{"text": {"a": 1}, "label": "x"}\n{"text": {"a": 2}, "label": "y"}\n',
    "list-label.jsonl": b'{"text": "a", "label": ["x"]}\n{"text": "b", "label": ["y"]}\n',
    "null-text.jsonl": b'{"text": null, "label": "x"}\n{"text": "b", "label": "y"}\n',
    "null-label.jsonl": b'{"text": "a", "label": null}\n{"text": "b", "label": "y"}\n',
    "missing-key.jsonl": b'{"text": "a", "label": "x"}\n{"text": "b"}\n',
    "surrogate.jsonl": b'{"text": "\\ud800", "label": "x"}\n{"text": "b", "label": "y"}\n',
    "surrogate-label.jsonl": b'{"text": "a", "label": "\\ud800"}\n{"text": "b", "label": "y"}\n',
    "deep-choices.jsonl": b'{"label": "x", "text": "a", "choices": ' + b"[" * DEEP + b"]" * DEEP + b"}\n",
    "same-column.parquet": parquet(twice("text", "text", "label")),
    "bad-utf8.parquet": parquet(bad_utf8("TEXT", "label")),
    "bad-utf8-label.parquet": parquet(bad_utf8("text", "LABEL")),
    "date-label.parquet": parquet({"text": ["a", "b"], "label": pa.array([2**30, 1], pa.date32())}),
    "duration-label.parquet": parquet({"text": ["a", "b"], "label": pa.array([2**62, 1], pa.duration("s"))}),
    "struct-label.parquet": parquet({"text": ["a", "b"], "label": [{"a": 1}, {"a": 2}]}),
    "struct-text.parquet": parquet({"text": [{"a": 1}, {"a": 2}], "label": ["x", "y"]}),
    "binary-text.parquet": parquet({"text": [b"\xff", b"\xfe"], "label": ["x", "y"]}),
    "number-text.parquet": parquet({"text": [[1.5], [2.5]], "label": ["x", "y"]}),
    "nan-label.parquet": parquet({"text": ["a", "b"], "label": [float("nan"), 1.0]}),
}  # fmt: skip

GOOD_SCORES = b"label,prob_0,prob_1\n0,.9,.1\n1,.2,.8\n"
PREDICTIONS = NOTHING | {
    "no-label.csv": b"prob_0,prob_1\n.9,.1\n",
    "no-scores.csv": b"label,text\n0,a\n",
    "both.csv": b"label,prob_0,prob_1,logit_0,logit_1\n0,.9,.1,1,2\n",
    "gap.csv": b"label,prob_0,prob_2\n0,.9,.1\n",
    "sum.csv": b"label,prob_0,prob_1\n0,.9,.9\n",
    "negative.csv": b"label,prob_0,prob_1\n0,1.1,-.1\n",
    "nan.csv": b"label,prob_0,prob_1\n0,nan,.1\n",
    "inf.csv": b"label,logit_0,logit_1\n0,inf,.1\n",
    "missing.csv": b"label,prob_0,prob_1\n0,,.1\n",
    "word.csv": b"label,prob_0,prob_1\n0,a,.1\n",
    "comma.csv": b'label,prob_0,prob_1\n0,"0,9",.1\n',
    "label-range.csv": b"label,prob_0,prob_1\n2,.9,.1\n",
    "label-negative.csv": b"label,prob_0,prob_1\n-1,.9,.1\n",
    "label-half.csv": b"label,prob_0,prob_1\n0.5,.9,.1\n",
    "label-missing.csv": b"label,prob_0,prob_1\n,.9,.1\n",
    "label-unknown.csv": b"label,prob_cat,prob_dog\nfox,.9,.1\n",
    "same-column.csv": b"label,label,prob_0,prob_1\n0,1,.9,.1\n",
    "same-class.csv": b"label,prob_a,prob_a\na,.9,.1\n",
    "uneven.csv": GOOD_SCORES + b"0,.9\n",
    "unclosed.csv": GOOD_SCORES + b'"0,.9,.1\n',
    "deep-list.csv": b'label,probs\n0,"' + b"[" * DEEP + b'"\n',
    "deep-list-closed.csv": b'label,probs\n0,"' + b"[" * DEEP + b"]" * DEEP + b'"\n',
    "ragged.jsonl": b'{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "probs": [1.0]}\n',
    "empty-list.jsonl": b'{"label": 0, "probs": []}\n',
    "one-class.jsonl": b'{"label": 0, "probs": [1.0]}\n',
    "words.jsonl": b'{"label": 0, "probs": ["a", "b"]}\n',
    "nulls.jsonl": b'{"label": 0, "probs": [null, 1.0]}\n',
    "nested.jsonl": b'{"label": 0, "probs": [[0.5], [0.5]]}\n',
    "dict.jsonl": b'{"label": 0, "probs": {"a": 0.5}}\n',
    "label-dict.jsonl": b'{"label": {"a": 1}, "probs": [0.5, 0.5]}\n',
    "id-dict.json": b'[{"row_id": {"a": 1}, "label": 0, "probs": [0.5, 0.5]}]',
    "id-dict.parquet": parquet({"row_id": [{"a": 1}], "label": [0], "probs": [[0.5, 0.5]]}),
    "label-struct.parquet": parquet({"label": [{"a": 1}], "probs": [[0.5, 0.5]]}),
    "label-null.parquet": parquet({"label": pa.array([None], pa.int64()), "probs": [[0.5, 0.5]]}),
    "scores-null.parquet": parquet({"label": [0, 1], "probs": [[0.5, 0.5], None]}),
    "scores-words.parquet": parquet({"label": [0], "probs": [["a", "b"]]}),
    "ragged.parquet": parquet({"label": [0, 1], "probs": [[0.5, 0.5], [1.0]]}),
    "same-column.parquet": parquet(twice("label", "label", "prob_0", "prob_1")),
    "bad-utf8.parquet": parquet(bad_utf8("LABEL", "prob_a", "prob_b")),
    "names-deep.parquet": parquet({"label": [0], "probs": [[0.5, 0.5]]}, {"calmix.class_names": "[" * DEEP}),
    "names-null.parquet": parquet({"label": [0], "probs": [[0.5, 0.5]]}, {"calmix.class_names": "null"}),
    "names-number.parquet": parquet({"label": [0], "probs": [[0.5, 0.5]]}, {"calmix.class_names": "3"}),
    "names-few.parquet": parquet({"label": [0], "probs": [[0.5, 0.5]]}, {"calmix.class_names": '["a"]'}),
    "word.npz": b"word",
    "empty.npz": b"",
    "npy.npz": npy(header("1,"), b"\0" * 8),
    "no-members.npz": archive(),
    "no-label.npz": npz(probs=np.full((2, 2), 0.5)),
    "no-scores.npz": npz(label=np.zeros(2, int)),
    "shapes.npz": npz(label=np.zeros(3, int), probs=np.full((2, 2), 0.5)),
    "three-dimensions.npz": npz(label=np.zeros(2, int), probs=np.full((2, 2, 2), 0.5)),
    "scalar.npz": npz(label=np.int64(0), probs=np.float64(0.5)),
    "complex.npz": npz(label=np.zeros(2, int), probs=np.full((2, 2), 0.5 + 0j)),
    "words.npz": npz(label=np.zeros(2, int), probs=np.full((2, 2), "a")),
    "objects.npz": npz(label=np.array([0, {}], dtype=object), probs=np.full((2, 2), 0.5)),
    "huge.npz": archive(label=npy(header("99999999999999,")), probs=npy(header("99999999999999, 2"))),
    "bad-header.npz": archive(label=npy("{'descr': '<i8', 'fortran_order': False, 'shape': ("), probs=b""),
    "short.npz": archive(label=npy(header("9,")), probs=b"\x93NUM"),
    "torn.npz": npz(label=np.zeros(50, int), probs=np.full((50, 2), 0.5))[:-60],
}  # fmt: skip
