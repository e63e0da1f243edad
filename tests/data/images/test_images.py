"""Images come from folders, arrays and tables, and are the same images whichever way they came."""

import io
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from calmix.data.checks import conflicting_duplicates, files_passed_over, shared_with_training
from calmix.data.images.stored import as_pnm, decode, inspect, resized
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.user_error import UserError
from pictures import digits, write_folders, write_npz


def png(pixels, **settings) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", **settings)
    return buffer.getvalue()


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_an_array_kept_as_a_file_is_the_array_and_what_pil_reads(pixels):
    content = as_pnm(pixels)
    assert np.array_equal(decode(content), pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), pixels)
    assert inspect(content)[0] == pixels.shape[:2]


def test_gray_sixteen_bit_and_turned_images_become_rgb(tmp_path):
    gray, _ = digits(1)
    assert np.array_equal(decode(png(gray[0])), np.repeat(gray[0][:, :, None], 3, axis=2))
    deep = gray[0].astype(np.uint16) * 257
    assert np.array_equal(decode(png(deep))[:, :, 1], gray[0])
    wide = np.zeros((4, 9, 3), dtype=np.uint8)
    wide[0, 0] = 200
    exif = Image.Exif()
    exif[0x0112] = 6  # held on its side: to be turned clockwise
    content = png(wide, exif=exif)
    assert decode(content).shape == (9, 4, 3)
    assert inspect(content)[0] == (9, 4)
    assert decode(content)[0, 3].tolist() == [200, 200, 200]


def saved(image, kind, **settings) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB with a key", "GIF"])
def test_what_is_transparent_lies_on_white(mode):
    """A black stroke, half a gray one, and nothing: whose stored colour is black too."""
    drawing = Image.new("RGBA", (3, 1), (0, 0, 0, 0))
    drawing.putpixel((0, 0), (0, 0, 0, 255))
    drawing.putpixel((1, 0), (0, 0, 0, 51))
    expected = [0, 204, 255]
    if mode == "RGBA":
        content = saved(drawing, "PNG")
    elif mode == "LA":
        content = saved(drawing.convert("LA"), "PNG")
    else:  # one colour of many is transparent
        flat = Image.new("RGB" if "RGB" in mode else "P", (3, 1))
        colours = [(10, 20, 30), (204, 204, 204), (0, 0, 0)]
        expected = [(10, 20, 30), (204, 204, 204), (255, 255, 255)]
        if flat.mode == "P":
            flat.putpalette([part for colour in colours for part in colour])
        for place, colour in enumerate(colours):
            flat.putpixel((place, 0), colour if flat.mode == "RGB" else place)
        key = colours[2] if flat.mode == "RGB" else 2
        content = saved(flat, "GIF" if mode == "GIF" else "PNG", transparency=key)
    wanted = [[value] * 3 if isinstance(value, int) else list(value) for value in expected]
    assert decode(content).tolist() == [wanted]


def test_sizes_are_those_of_the_decoded_images_and_no_second_read(tmp_path, monkeypatch):
    exif = Image.Exif()
    exif[0x0112] = 8
    wide = Image.fromarray(np.zeros((20, 90, 3), dtype=np.uint8))
    contents = {"a.jpg": saved(wide, "JPEG", exif=exif), "b.png": saved(wide, "PNG"),
                "c.png": saved(wide, "PNG", exif=exif), "d.ppm": as_pnm(np.asarray(wide))}  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    rows = read_rows(tmp_path, labelled=False)
    assert rows.image_sizes() == [(90, 20), (20, 90), (90, 20), (20, 90)]
    assert [decode(image).shape[:2] for image in rows.images()] == rows.image_sizes()
    assert rows.select([2]).image_sizes() == [(90, 20)]


def test_a_jpeg_cut_off_or_an_array_file_without_its_end_is_found_on_reading(tmp_path):
    generator = np.random.default_rng(0)
    noise = Image.fromarray(generator.integers(0, 255, (64, 48, 3), dtype=np.uint8))
    wholes = {"JPEG": (".jpg", saved(noise, "JPEG")),
              "progressive": (".jpg", saved(noise, "JPEG", progressive=True)),
              "PNG": (".png", saved(noise, "PNG")), "WEBP": (".webp", saved(noise, "WEBP")),
              "PNM": (".ppm", as_pnm(np.asarray(noise)))}  # fmt: skip
    for kind, (ending, whole) in wholes.items():
        folder = tmp_path / kind / "cat"
        folder.mkdir(parents=True)
        (folder / f"1{ending}").write_bytes(whole)
        assert len(read_rows(tmp_path / kind)) == 1
        for name, content in {"cut": whole[: len(whole) * 2 // 3], "empty": b""}.items():
            file = folder / f"{name}{ending}"
            file.write_bytes(content)
            with pytest.raises(UserError) as caught:
                read_rows(tmp_path / kind)
            said = "an empty file" if name == "empty" else "the image cannot be decoded"
            assert str(caught.value).startswith(f"{file}: {said}")
            assert str(caught.value).endswith("; remove it or save it again")
            with pytest.raises(UserError, match=f"{name}{ending}: "):
                decode(str(file))
            file.unlink()
    with pytest.raises(UserError, match=r"gone\.jpg: the image cannot be read \(No such file"):
        decode(str(tmp_path / "gone.jpg"))


def test_a_class_without_an_image_is_refused_and_files_passed_over_are_counted(tmp_path):
    folder = write_folders(tmp_path / "data", 12, classes=2)
    (folder / "0" / "photo.heic").write_bytes(b"x")
    (folder / "0" / "2020").mkdir()
    (folder / "0" / "2020" / "deep.png").write_bytes(png(digits(1)[0][0]))
    (folder / "README.txt").write_text("x")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.png").write_bytes(b"x")
    (finding,) = files_passed_over(read_rows(folder), "train")
    assert str(finding) == (
        "warning: train: 3 files were passed over, not being images of a class, such as 0/2020/deep.png"
    )
    assert files_passed_over(read_rows(write_npz(tmp_path / "a.npz", 4)), "train") == []
    (folder / "fox").mkdir()
    (folder / "fox" / "a.heic").write_bytes(b"x")
    with pytest.raises(
        UserError, match=r"fox: no image in this folder, beside folders of classes; put images"
    ):
        read_rows(folder)


def test_folders_arrays_and_tables_give_the_same_images(tmp_path):
    images, labels = digits(30)
    order = np.lexsort((np.arange(30), labels))  # a folder is read class by class
    folder = write_folders(tmp_path / "folder", 30)
    npz = write_npz(tmp_path / "a.npz", 30)
    files = [f"folder/{label}/{number:04}.png" for number, label in enumerate(labels)]
    listed = tmp_path / "listed.csv"
    listed.write_text("image,label\n" + "\n".join(f"{f},{y}" for f, y in zip(files, labels, strict=True)))
    stored = tmp_path / "stored.parquet"
    contents = [(tmp_path / file).read_bytes() for file in files]
    pq.write_table(pa.table({"image": contents, "label": labels}), stored)
    hub = tmp_path / "hub.parquet"
    pq.write_table(pa.table({"image": [{"bytes": c, "path": None} for c in contents], "label": labels}), hub)
    mixed = tmp_path / "mixed.parquet"
    halves = [
        {"bytes": c, "path": None} if i % 2 else {"bytes": None, "path": f}
        for i, (c, f) in enumerate(zip(contents, files, strict=True))
    ]
    pq.write_table(pa.table({"image": halves, "label": labels}), mixed)
    assert read_rows(mixed, "train").fingerprint() == read_rows(stored, "train").fingerprint()
    for source, places in ((folder, order), (npz, range(30)), (listed, range(30)), (stored, range(30)),
                           (hub, range(30))):  # fmt: skip
        rows = read_rows(source, "train")
        assert rows.task == "image"
        assert rows.label_names == tuple(map(str, range(10)))
        assert rows.labels.tolist() == labels[list(places)].tolist()
        for image, place in zip(rows.images(), places, strict=True):
            assert np.array_equal(decode(image)[:, :, 0], images[place])
    assert read_rows(listed, "train").fingerprint() == read_rows(stored, "train").fingerprint()
    changed = tmp_path / "folder" / str(labels[0]) / "0000.png"
    before = read_rows(folder, "train").fingerprint()
    changed.write_bytes(png(255 - images[0]))
    assert read_rows(folder, "train").fingerprint() != before, "the content counts, not the name"


def test_label_names_of_an_npz_are_the_labels(tmp_path):
    images, labels = digits(20, classes=2)
    np.savez(tmp_path / "a.npz", images=images, labels=labels, label_names=np.array(["zero", "one"]))
    rows = read_rows(tmp_path / "a.npz")
    assert rows.label_names == ("one", "zero")
    assert [rows.label_names[i] for i in rows.labels] == [["zero", "one"][y] for y in labels]


def test_folders_of_splits_and_a_split_off_validation(tmp_path):
    write_folders(tmp_path / "data" / "train", 40, classes=3)
    write_folders(tmp_path / "data" / "test", 20, skip=40, classes=3)
    splits = read_splits(str(tmp_path / "data"))
    assert (len(splits.train) + len(splits.validation), len(splits.tests["test"])) == (40, 20)
    assert splits.validation_was_split
    alone = read_splits(str(tmp_path / "data" / "train"), tests=[f"more={tmp_path / 'data' / 'test'}"])
    assert len(alone.tests["more"]) == 20
    flat = tmp_path / "data" / "test" / "0"
    assert not read_rows(flat, "input", labelled=False).is_labelled


def write_flat(directory, rows, skip=0):
    directory.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(digits(rows, skip=skip)[0]):
        (directory / f"{number}.png").write_bytes(png(image))


def test_folders_named_as_splits_are_no_classes(tmp_path):
    write_flat(tmp_path / "train", 6)
    write_flat(tmp_path / "test", 3, skip=6)
    with pytest.raises(UserError, match=r"train: no labels: the images lie in no folders of classes; put"):
        read_splits(str(tmp_path))
    assert [len(read_rows(tmp_path, split, labelled=False)) for split in ("train", "test")] == [6, 3]
    with pytest.raises(UserError, match=r"no input file in this directory; it holds: test, train"):
        read_rows(tmp_path, "input", labelled=False)


def test_a_flat_folder_of_test_images_beside_classes_to_train_on(tmp_path):
    write_folders(tmp_path / "train", 40, classes=2)
    write_flat(tmp_path / "test", 3)
    splits = read_splits(str(tmp_path))
    assert splits.train.label_names == ("0", "1")
    assert not splits.tests, "nothing to test on without labels"
    for split in ("test", "input"):
        assert len(read_rows(tmp_path, split, labelled=False)) == 3
    with pytest.raises(UserError, match=r"test: no labels"):
        read_rows(tmp_path, "test")


def test_a_class_may_be_called_train(tmp_path):
    for name in ("bus", "car", "train"):
        write_flat(tmp_path / name, 2)
    assert read_rows(tmp_path, "train").label_names == ("bus", "car", "train")


def test_the_same_image_in_two_splits_or_under_two_labels_is_found(tmp_path):
    images, labels = digits(12)
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    doubled, other = np.concatenate([images, images[:2]]), np.concatenate([labels, [9, labels[1]]])
    np.savez(tmp_path / "b.npz", images=doubled, labels=other)
    train, again = read_rows(tmp_path / "a.npz"), read_rows(tmp_path / "b.npz")
    assert str(shared_with_training(train, again, "test")[0]) == (
        "warning: test: 14 of 14 rows (100.0 %) also appear in the training set"
    )
    assert conflicting_duplicates(again)[0].count == 2


def test_resizing_is_what_the_image_processor_does():
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    images, _ = digits(4, side=24)
    pixels = np.repeat(images[:, :, :, None], 3, axis=3)
    processor = ViTImageProcessorPil(size={"height": 10, "width": 14}, do_rescale=False, do_normalize=False)
    expected = processor(list(pixels), input_data_format="channels_last", return_tensors="np")["pixel_values"]
    ours = np.stack([resized(image, (10, 14)) for image in pixels]).transpose(0, 3, 1, 2)
    assert np.array_equal(ours, expected)


@pytest.mark.parametrize(
    ("arrays_of", "said"),
    [
        ({"pictures": np.zeros(3)}, "a.npz: no array 'images'; it holds: pictures"),
        ({"images": np.zeros((2, 8, 8))}, "a.npz: 'images' is float64, 2 x 8 x 8"),
        ({"images": np.zeros((2, 8, 8, 4), np.uint8)}, "a.npz: 'images' is uint8, 2 x 8 x 8 x 4"),
        (
            {"images": np.zeros((2, 8, 8), np.uint8), "labels": np.zeros(3, int)},
            "a.npz: 2 images but 'labels' of shape (3,)",
        ),
        (
            {"images": np.zeros((1, 8, 8), np.uint8), "labels": np.array([5]), "label_names": ["a"]},
            "a.npz: 'labels' from 5 to 5 but 1 'label_names'",
        ),
    ],
)
def test_what_is_wrong_with_an_npz_is_said(tmp_path, monkeypatch, arrays_of, said):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", **arrays_of)
    with pytest.raises(UserError) as caught:
        read_rows("a.npz")
    assert str(caught.value).startswith(said + "; save 'images' (uint8")


def test_bad_images_are_named_by_their_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.png").write_bytes(png(digits(1)[0][0]))
    (tmp_path / "torn.png").write_bytes(b"no image at all")
    cases = {
        "torn.png": "a.jsonl, row 2, column 'image': not an image file",
        "gone.png": "a.jsonl, row 2, column 'image': no image file 'gone.png'",
        "": "a.jsonl, row 2, column 'image': no image",
    }
    for name, said in cases.items():
        records = [{"image": "good.png", "label": "a"}, {"image": name, "label": "b"}]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
        with pytest.raises(UserError) as caught:
            read_rows("a.jsonl")
        assert str(caught.value).startswith(said)
    whole = png(digits(1, side=24)[0][0])
    (tmp_path / "half.png").write_bytes(whole[: len(whole) - 30])
    with pytest.raises(UserError, match=r"half\.png: the image cannot be decoded"):
        decode(str(tmp_path / "half.png"))
    (tmp_path / "b.npz").write_bytes(b"not a zip")
    with pytest.raises(UserError, match=r"b\.npz: not an npz archive of plain arrays"):
        read_rows("b.npz")
    write_folders(tmp_path / "c", 4)
    (tmp_path / "c" / "loose.png").write_bytes((tmp_path / "good.png").read_bytes())
    with pytest.raises(UserError, match=r"c: an image outside the folders of the classes: loose\.png"):
        read_rows("c")


def test_texts_where_images_are_expected_and_the_other_way_round(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.csv").write_text("text,label\na,0\n")
    write_npz(tmp_path / "a.npz", 4)
    with pytest.raises(UserError, match=r"texts\.csv: no column 'image'.*image_column"):
        read_rows("texts.csv", task="image")
    with pytest.raises(UserError, match=r"a\.npz: no column 'text'; the columns are: image, label"):
        read_rows("a.npz", task="single")


@pytest.mark.parametrize("orientation", [0, 1, 6, 8, 9, 65535])
def test_sizes_follow_only_the_turns_that_exist(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(Image.new("RGB", (12, 6)), "JPEG", exif=exif)
    assert inspect(content).size == decode(content).shape[:2]


@pytest.mark.parametrize("place", ["file", "class"])
def test_a_name_that_is_no_text_is_refused(place, tmp_path):
    broken = os.fsdecode(b"caf\xe9")
    folders = [tmp_path / "cat", tmp_path / (broken if place == "class" else "dog")]
    for folder in folders:
        folder.mkdir()
        Image.new("RGB", (4, 4)).save(folder / (f"{broken}.png" if place == "file" else "a.png"))
    with pytest.raises(UserError, match="a name that is no text in UTF-8") as caught:
        read_rows(tmp_path, "train")
    str(caught.value).encode()
