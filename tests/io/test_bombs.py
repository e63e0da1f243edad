"""Archives and images that unpack to far more than they are: refused in one line, before memory is gone."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from calmix.io import opening
from calmix.io.npz_arrays import read_npz
from calmix.io.tables import read_table, table_batches
from calmix.user_error import UserError


@pytest.fixture
def small_limit(monkeypatch):
    """A limit that a test can reach: 1 MiB in place of 1 GiB."""
    monkeypatch.setattr(opening, "ALLOWED_BYTES", 1 << 20)


@pytest.mark.parametrize("extension", [".csv", ".jsonl", ".json", ".tsv"])
def test_a_gzip_bomb_is_refused_while_it_is_read(tmp_path, small_limit, extension):
    line = b'{"text": "a", "label": "b"}\n' if "json" in extension else b"text,label\n"
    file = tmp_path / f"bomb{extension}.gz"
    file.write_bytes(gzip.compress(line + b" " * (8 << 20)))
    for read in (read_table, lambda path: list(table_batches(path))):
        with pytest.raises(UserError, match="unpacks to more than 100 times its size"):
            read(file)


def test_text_that_packs_well_is_read(tmp_path, small_limit):
    rows = b"".join(b"text %d,%d\n" % (row * 7919 % 100003, row % 2) for row in range(150_000))
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(gzip.compress(b"text,label\n" + rows))
    assert len(rows) > 1 << 20
    assert read_table(file).row_count == 150_000


def test_a_zip_bomb_in_an_npz_is_refused_before_it_is_unpacked(tmp_path, small_limit):
    content = io.BytesIO()
    np.save(content, np.zeros(1 << 20))
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", content.getvalue())
    with pytest.raises(UserError, match="unpacks to more than 100 times its size"):
        read_npz(tmp_path / "bomb.npz")


def test_an_image_of_billions_of_pixels_is_refused(tmp_path):
    import struct
    import zlib

    from calmix.data.columns import ColumnNames
    from calmix.data.reading import read_rows

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(bomb)
    with pytest.raises(UserError, match=r"1\.png"):
        read_rows(str(tmp_path), "train", ColumnNames())
