from __future__ import annotations

import json

import pytest
from jinja2 import UndefinedError
from plotly.offline import get_plotlyjs

from calmix.report.page import (
    Beside,
    Chart,
    Code,
    Details,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    new_figure,
    render,
    write_page,
)
from calmix.report.tables import Column, Table

NASTY = "</script><script>alert('x')</script> <b>& \"quoted\""


def page_of(*blocks, title="Title"):
    return Page(title, "lead", Facts((Fact("name", "value", "note"),)), (Section("Section", blocks),))


def chart_of(name: str, x: list[float]) -> Chart:
    figure = new_figure(height=300)
    figure.add_scatter(x=x, y=x, name=name)
    return Chart(figure, name, name, name)


def test_text_from_outside_is_escaped_in_every_block(read_page):
    table = Table(NASTY, (Column(NASTY, NASTY),), ((NASTY,),), (NASTY,))
    blocks = (Prose(NASTY), Code(NASTY), table, chart_of(NASTY, [1.0]), Facts((Fact(NASTY, NASTY, NASTY),)))
    html = render(page_of(*blocks, Details(NASTY, (Prose(NASTY),)), title=NASTY))
    assert "<script>alert" not in html
    read = read_page(html)
    # Title twice, prose, code, four parts of the table, two of the chart, three of the fact, two of details.
    assert read.text.count(NASTY) == 2 + 1 + 1 + 4 + 2 + 3 + 2
    assert read.charts[0]["data"][0]["name"] == NASTY


def test_numbers_of_a_chart_arrive_bit_by_bit(read_page):
    x = [1 / 3, 0.1 + 0.2, 1e-300]
    assert read_page(render(page_of(chart_of("a", x)))).charts[0]["data"][0]["x"] == x


def test_plotly_is_inside_once_however_many_charts(read_page):
    html = render(page_of(Beside((chart_of("a", [1.0]), chart_of("b", [2.0]))), chart_of("c", [3.0])))
    assert html.count(get_plotlyjs()) == 1
    assert [chart["data"][0]["name"] for chart in read_page(html).charts] == ["a", "b", "c"]


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
    broken = Chart(figure=object(), title="", caption="", description="")
    with pytest.raises(UndefinedError):
        write_page(page_of(broken), file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_the_empty_figure_carries_no_theme_of_its_own():
    layout = json.loads(new_figure(height=120).to_json())["layout"]
    assert "layout" not in layout["template"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
