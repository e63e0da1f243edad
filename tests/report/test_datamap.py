import csv
import json
import re

import numpy as np
import pytest

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import datamap_table
from calmix.dynamics.importers import read_aum_values
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.report.maps import datamap as datamap_page
from calmix.report.maps.datamap import render_datamap, write_datamap_html
from calmix.report.pages.page import shown
from opened_page import OpenedPage

NAMES = ("negative", "positive")
HOSTILE = [
    "<img src=x onerror=\"window.hacked='img'\"> <b>bold</b> & 'quotes' \"too\"",
    "</script><script>window.hacked='script'</script>",
    "<!--<script>window.hacked='comment'",
    "{{ 7 * 7 }} \\u003c ${1} `x` \u2028 line\nbreak, comma",
]


def made_up(rows, epochs=4, seed=0):
    """A map whose rows run from easy to hard, and a text for each."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows)
    logits = generator.normal(size=(rows, epochs, 2))
    gain = np.linspace(0, 3, epochs) * generator.normal(1, 1, size=(rows, 1))
    logits[np.arange(rows)[:, None], np.arange(epochs), labels[:, None]] += gain
    ids = [f"train-{row + 1}" for row in range(rows)]
    dynamics = TrainingDynamics.from_logits(logits, labels, row_ids=ids, class_names=NAMES)
    return DataMap.from_dynamics(dynamics), [f"the text of row {row + 1}, film" for row in range(rows)]


def block(page, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)[1])


def test_of_more_rows_than_a_browser_can_draw_the_list_and_a_sample_are_on_the_page(monkeypatch):
    monkeypatch.setattr(datamap_page, "MOST_LISTED", 5)
    monkeypatch.setattr(datamap_page, "MOST_DRAWN", 20)
    datamap, texts = made_up(300)
    page = render_datamap(datamap_table(datamap), texts, "Map")
    shown = block(page, "texts")
    assert block(page, "meta")["count"] == len(shown["ids"]) == len(set(shown["ids"])) == 20
    assert set(datamap.row_ids[np.argsort(datamap.aum)[:5]]) <= set(shown["ids"])
    assert shown["texts"] == [f"the text of row {row[6:]}, film" for row in shown["ids"]]
    assert "the 5 rows listed first and 15 others drawn at random, of 300 rows over 4 epochs" in page


class TestPage:
    def test_holds_every_row_and_loads_nothing(self):
        datamap, texts = made_up(50)
        page = render_datamap(datamap_table(datamap), texts, "Map")
        assert block(page, "texts") == {"ids": datamap.row_ids.tolist(), "texts": texts}
        assert block(page, "meta")["class_names"] == list(NAMES)
        assert not re.search(r"(src|href)=|https?:|@import|url\(", page)
        assert "default-src 'none'" in page

    def test_texts_and_title_cannot_leave_their_place(self):
        datamap, _ = made_up(len(HOSTILE))
        page = render_datamap(datamap_table(datamap), HOSTILE, "</title><script>hacked</script>")
        assert block(page, "texts")["texts"] == HOSTILE
        assert page.count("<script") == 4
        assert "<title>&lt;/title&gt;&lt;script&gt;" in page

    def test_rows_never_seen_are_counted_and_not_shown(self):
        recorder = DynamicsRecorder(["a", "b", "c"], [0, 1, 0], epochs=2, num_classes=2)
        for epoch in range(2):
            recorder.record(["a", "c"], [[1.0, 0.0], [0.0, epoch]], epoch=epoch)
        table = datamap_table(DataMap.from_recorder(recorder))
        page = render_datamap(table, ["A", "B", "C"], "Map")
        assert block(page, "texts") == {"ids": ["a", "c"], "texts": ["A", "C"]}
        assert "2 rows over 2 epochs; 1 row without a score is not shown" in page

    def test_long_texts_are_cut(self):
        datamap, _ = made_up(2)
        page = render_datamap(datamap_table(datamap), ["word " * 400, "short"], "Map", text_limit=50)
        assert block(page, "texts")["texts"] == [("word " * 10).rstrip() + "…", "short"]

    def test_as_many_texts_as_rows(self, tmp_path):
        datamap, _ = made_up(3)
        with pytest.raises(ValueError, match="2 texts for 3 rows"):
            write_datamap_html(tmp_path / "map.html", datamap_table(datamap), ["one", "two"])


class Page(OpenedPage):
    """The map as a reader uses it."""

    def move(self, *places, press=False):
        from selenium.webdriver.common.actions.action_builder import ActionBuilder
        from selenium.webdriver.common.actions.pointer_input import PointerInput

        actions = ActionBuilder(self.browser, mouse=PointerInput("mouse", "mouse"), duration=0)
        for number, (x, y) in enumerate(places):
            actions.pointer_action.move_to_location(round(x), round(y))
            if press and number == 0:
                actions.pointer_action.pointer_down()
        if press:
            actions.pointer_action.pointer_up()
        actions.perform()

    def place(self, row_id):
        where = self.script("return window.datamap.place(arguments[0])", row_id)
        return where["x"], where["y"]

    def hover(self, row_id):
        self.move(self.place(row_id))
        self.wait(lambda: self.text("tip-id") == row_id)

    def colour(self, row_id):
        """The pixel under a row's point."""
        return self.script(
            """const canvas = document.getElementById("points"), box = canvas.getBoundingClientRect();
            const where = window.datamap.place(arguments[0]), ratio = canvas.width / box.width;
            const at = [(where.x - box.left) * ratio, (where.y - box.top) * ratio].map(Math.round);
            return [...canvas.getContext("2d").getImageData(at[0], at[1], 1, 1).data].slice(0, 3)""",
            row_id,
        )

    def click(self, selector, containing=""):
        self.script(
            """[...document.querySelectorAll(arguments[0])]
            .find((one) => one.textContent.includes(arguments[1])).click()""",
            selector,
            containing,
        )

    def selected(self):
        return self.script("return window.datamap.selected()")

    def download(self, name="selection", button="#download"):
        file = self.downloaded(f"{name}.csv", lambda: self.click(button))
        with file.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def small():
    return made_up(300)


@pytest.fixture
def page(browser, tmp_path, small):
    datamap, texts = small
    write_datamap_html(tmp_path / "map.html", datamap_table(datamap), texts, "Reviews")
    return Page(browser, tmp_path / "map.html")


def isolated(datamap):
    """The row farthest from its nearest neighbour, so that hovering it is unambiguous."""
    points = np.stack([datamap.variability / 0.5, datamap.confidence], axis=1)
    distance = np.abs(points[:, None] - points[None]).max(axis=2) + 9 * np.eye(len(points))
    return int(distance.min(axis=1).argmax())


class TestInTheBrowser:
    def test_every_point_is_drawn_where_its_numbers_say(self, page, small):
        datamap, _ = small
        assert page.script("return window.datamap.count") == 300
        assert all(page.colour(row_id) != [255, 255, 255] for row_id in datamap.row_ids[:40].tolist())
        # Places on the screen are an increasing map of variability and a decreasing one of confidence.
        places = np.array([page.place(row_id) for row_id in datamap.row_ids.tolist()])
        assert np.corrcoef(places[:, 0], datamap.variability)[0, 1] == pytest.approx(1, abs=1e-6)
        assert np.corrcoef(places[:, 1], datamap.confidence)[0, 1] == pytest.approx(-1, abs=1e-6)
        assert page.errors() == []

    def test_hover_shows_the_row(self, page, small):
        datamap, texts = small
        row = isolated(datamap)
        page.hover(f"train-{row + 1}")
        assert page.text("tip-text") == texts[row]
        facts = page.text("tip-facts")
        assert f"confidence{datamap.confidence[row]:.3f}" in facts
        assert f"right in{datamap.correctness[row]:.0f} of 4 epochs" in facts
        assert f"label{NAMES[datamap.labels[row]]}" in facts

    def test_a_hostile_text_is_shown_as_text(self, browser, tmp_path):
        datamap, _ = made_up(len(HOSTILE), seed=3)
        write_datamap_html(tmp_path / "map.html", datamap_table(datamap), HOSTILE, "<i>Map</i>")
        page = Page(browser, tmp_path / "map.html")
        for row, text in enumerate(HOSTILE):
            page.hover(f"train-{row + 1}")
            assert page.text("tip-text") == shown(text)
        assert page.script("return window.hacked") is None
        assert page.script("return document.querySelectorAll('img, b, #tip-text *').length") == 0
        assert browser.title == "<i>Map</i>"
        assert page.errors() == []
        assert [line["text"] for line in page.download()] == HOSTILE

    def test_the_downloaded_selection_has_the_rows_in_the_brush(self, page, small):
        datamap, texts = small
        places = np.array([page.place(row_id) for row_id in datamap.row_ids.tolist()])
        low, high = np.round(np.quantile(places, 0.2, axis=0)), np.round(np.quantile(places, 0.6, axis=0))
        page.move(low, (low + high) / 2, high, press=True)
        inside = ((places >= low) & (places <= high)).all(axis=1)
        assert 0 < inside.sum() < 300
        expected = datamap.row_ids[inside].tolist()
        assert page.selected() == expected
        assert page.text("selected-count") == str(len(expected))
        lines = page.download()
        assert [line["row_id"] for line in lines] == expected
        for line in lines:
            row = int(line["row_id"].removeprefix("train-")) - 1
            assert line["text"] == texts[row]
            assert line["label"] == NAMES[datamap.labels[row]]
            assert float(line["confidence"]) == pytest.approx(datamap.confidence[row], abs=1e-6)
            assert float(line["aum"]) == pytest.approx(datamap.aum[row], abs=1e-5)

    def test_corrected_labels_are_marked_and_downloaded(self, page, small):
        from selenium.webdriver.support.ui import Select

        datamap, _ = small
        assert page.text("list-title") == "Lowest area under the margin first"
        assert page.text("list-note").startswith("Not a test")
        assert page.script("return document.getElementById('corrections').hidden")
        rows = np.argsort(datamap.aum)[:3].tolist()
        fields = page.browser.find_elements("css selector", "#list select")
        shown = page.browser.find_elements("css selector", "#list .labels span")
        for row, field, predicted in zip(rows, fields, shown, strict=False):
            assert predicted.text == f"predicted {NAMES[datamap.predicted_label[row]]}"
            assert Select(field).first_selected_option.text == f"label: {NAMES[datamap.labels[row]]}"
        for row, field in zip(rows, fields, strict=False):
            Select(field).select_by_visible_text(NAMES[1 - datamap.labels[row]])
        Select(fields[1]).select_by_index(int(datamap.labels[rows[1]]))  # back: no correction
        assert page.text("download-corrections") == "Download 2 corrections"
        expected = [
            {
                "row_id": f"train-{row + 1}",
                "label": NAMES[datamap.labels[row]],
                "corrected_label": NAMES[1 - datamap.labels[row]],
            }
            for row in sorted((rows[0], rows[2]))
        ]
        assert page.download("corrections", "#download-corrections") == expected
        page.click("#drop-corrections")
        assert page.script("return document.getElementById('corrections').hidden")
        assert page.errors() == []

    def test_a_click_or_clear_ends_the_selection(self, page):
        places = np.array([page.place(f"train-{row}") for row in range(1, 301)])
        corner, middle = places.min(axis=0), np.median(places, axis=0)
        page.move(corner, middle, press=True)
        assert len(page.selected()) < 300
        page.move(middle, press=True)
        assert len(page.selected()) == 300
        page.move(corner, middle, press=True)
        page.click("#clear")
        assert len(page.selected()) == 300

    def test_search_finds_texts_and_ids_whatever_their_case(self, page):
        field = page.browser.find_element("id", "search")
        field.send_keys("ROW 17, ")
        page.wait(lambda: page.selected() == ["train-17"])
        assert page.text("list-title") == "Lowest area under the margin first"
        field.clear()
        field.send_keys("train-29")
        expected = ["train-29"] + [f"train-{row}" for row in range(290, 300)]
        page.wait(lambda: page.selected() == expected)
        field.clear()
        field.send_keys("(no such text[")
        page.wait(lambda: page.selected() == [])

    def test_colour_by_region_and_hide_one(self, page, small):
        datamap, _ = small
        row = isolated(datamap)
        before = page.colour(f"train-{row + 1}")
        page.click("#modes button", "Region")
        partition = datamap.partition()
        legend = page.text("legend")
        for name in ("easy", "ambiguous", "hard"):
            assert f"{name}{getattr(partition, name).sum()}" in legend
        assert page.colour(f"train-{row + 1}") != before
        page.click("#legend button", "hard")
        assert page.selected() == datamap.row_ids[~partition.hard].tolist()

    def test_zooming_moves_the_points_and_double_click_brings_them_back(self, page):
        before = page.place("train-5")
        page.script(
            """const box = document.getElementById("overlay").getBoundingClientRect();
            document.getElementById("overlay").dispatchEvent(new WheelEvent("wheel",
              {deltaY: -100, clientX: box.left + 300, clientY: box.top + 200, cancelable: true}))"""
        )
        page.wait(lambda: page.place("train-5") != before)
        page.script('document.getElementById("overlay").dispatchEvent(new MouseEvent("dblclick"))')
        page.wait(lambda: page.place("train-5") == pytest.approx(before, abs=0.01))

    def test_dark_readers_get_a_dark_page(self, page):
        corner = (
            "return [...document.getElementById('points').getContext('2d').getImageData(1, 1, 1, 1).data]"
        )
        with page.seen(width=1300, theme="dark"):
            page.wait(lambda: max(page.script(corner)[:3]) < 80)

    def test_a_source_with_nothing_but_aums_is_shown_in_their_order(self, browser, tmp_path):
        (tmp_path / "aum_values.csv").write_text("sample_id,aum\nx,3.5\ny,-2.0\nz,1.0\n")
        table = datamap_table(read_aum_values(tmp_path / "aum_values.csv"))
        write_datamap_html(tmp_path / "map.html", table, None, "AUM")
        page = Page(browser, tmp_path / "map.html")
        across = {row_id: page.place(row_id)[0] for row_id in "xyz"}
        assert across["y"] < across["z"] < across["x"]
        page.hover("y")
        assert page.text("tip-facts") == "AUM-2.000"
        assert page.download() == [
            {"row_id": "x", "aum": "3.5"},
            {"row_id": "y", "aum": "-2"},
            {"row_id": "z", "aum": "1"},
        ]
        assert page.errors() == []

    def test_two_hundred_thousand_points_are_drawn_and_hover_and_search_answer(self, browser, tmp_path):
        datamap, texts = made_up(200_000)
        table = datamap_table(datamap)
        write_datamap_html(tmp_path / "map.html", table, texts, "Many")
        page = Page(browser, tmp_path / "map.html")
        assert page.script("return window.datamap.count") == 200_000
        row = int(np.argmax(datamap.variability))  # at the edge of the cloud
        page.hover(f"train-{row + 1}")
        assert page.text("tip-text") == texts[row]
        field = page.browser.find_element("id", "search")
        field.send_keys("row 123456,")
        page.wait(lambda: page.selected() == ["train-123456"])


def test_a_table_without_a_single_score_makes_an_empty_map():
    recorder = DynamicsRecorder(["a"], [0], epochs=2, num_classes=2)
    page = render_datamap(datamap_table(DataMap.from_recorder(recorder)), ["A"], "Map")
    assert "0 rows; 1 row without a score is not shown" in page
