from __future__ import annotations

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from calmix.report.pages.axes import percent_axis
from calmix.report.pages.forest import Effect, forest
from calmix.report.pages.page import (
    Beside,
    Chart,
    Code,
    Details,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    render,
    write_page,
)
from calmix.report.pages.plot import Legend, Plot
from calmix.report.tables import Column, Table

NASTY = "</script><script>alert('x')</script> <b>& \"quoted\""


def page_of(*blocks, title="Title"):
    return Page(title, "lead", Facts((Fact("name", "value", "note"),)), (Section("Section", blocks),))


def chart_of(name: str, x: list[float]) -> Chart:
    plot = Plot(percent_axis(0, 1, name), percent_axis(0, 1))
    plot.dots(((value, value, name) for value in x), "blue")
    return Chart(plot.svg(name), name, name, Legend((("circle", "blue", name),)))


def test_text_from_outside_is_escaped_in_every_block(read_page):
    table = Table(NASTY, (Column(NASTY, NASTY),), ((NASTY,),), (NASTY,))
    blocks = (Prose(NASTY), Code(NASTY), table, chart_of(NASTY, [1.0]), Facts((Fact(NASTY, NASTY, NASTY),)))
    effects = forest(NASTY, ["c"], [(NASTY, NASTY, [[Effect(1, 0, 2, NASTY)]])])
    html = render(page_of(*blocks, effects, Details(NASTY, (Prose(NASTY),)), title=NASTY))
    assert "<script>alert" not in html
    read = read_page(html)
    # Title twice, prose, code, four parts of the table, three of the fact, two of details; of the chart the
    # heading, the caption, the legend, the axis and the title of the point; of the forest five.
    assert read.text.count(NASTY) == 2 + 1 + 1 + 4 + 3 + 2 + 5 + 5


def test_the_policy_admits_the_own_style_and_script_alone():
    html = render(page_of(Prose("text")))
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html).group(1).replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")
    for part, tag in (("style", "style"), ("script", "script")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in policy
    assert " style=" not in html


def test_control_characters_and_marks_of_direction_are_spelled_out(read_page):
    html = render(page_of(Prose("a\u202eb"), Code("x\x1b[31m\ny"), title="\u2066t"))
    assert not set("\u202e\x1b\u2066") & set(html)
    assert "a\\u202eb" in html
    assert "x\\x1b[31m\ny" in html


def test_a_group_of_rows_shares_one_heading_cell():
    columns = (Column("split", numeric=False), Column("n"))
    html = render(page_of(Table("t", columns, (("a", "1"), ("a", "2"), ("b", "3")), grouped=True)))
    assert '<th scope="rowgroup" rowspan="2"><span class="name">a</span></th>' in html
    assert '<th scope="rowgroup"><span class="name">b</span></th>' in html
    assert html.count(">a</span></th>") == 1


def test_every_table_has_a_caption_and_every_chart_a_description(read_page):
    html = render(page_of(chart_of("told", [1.0]), Table("said", (Column("n"),), (("1",),))))
    assert "<caption>said</caption>" in html
    assert 'role="img" aria-label="told"' in html
    tags = read_page(html).tags
    assert tags.count("table") == tags.count("caption")


def test_a_page_that_fails_leaves_the_old_file(tmp_path):
    file = tmp_path / "report.html"
    file.write_text("old")
    broken = Beside((object(),))
    with pytest.raises(UndefinedError):
        write_page(page_of(broken), file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
