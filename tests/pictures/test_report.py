"""The report page parses, escapes what users wrote, and carries its pictures inside."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from nearcast.errors import OutputError
from nearcast.pictures.report import (
    Cell,
    Link,
    Picture,
    Section,
    Table,
    Tile,
    report_html,
    write_report,
)
from nearcast.pictures.style import new_figure

EVIL = "<script>alert('x')</script>\"&"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects elements and text, and checks that every element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def texts_in(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def picture(alternative: str = "a line") -> Picture:
    figure = new_figure(3, 2)
    figure.add_subplot().plot([1, 2], [3, 4])
    return Picture(figure, alternative, "Up is more.")


def test_the_page_has_its_parts_in_order() -> None:
    page = report_html(
        "Nightly",
        [Section("First", "One.\n\nTwo."), Section("Second", pictures=[picture()])],
        tiles=[Tile("best Y", 1.11891, "ms"), Tile("clients", 1_000_000)],
        lead="What came out.",
    )
    parsed = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.texts_in("title") == parsed.texts_in("h1") == ["Nightly"]
    assert parsed.texts_in("h2") == parsed.texts_in("a") == ["First", "Second"]
    assert parsed.texts_in("dt") == ["best Y", "clients"]
    assert parsed.texts_in("dd") == ["1.119", "1,000,000"]
    assert parsed.texts_in("small") == ["ms"]
    assert [text for text in parsed.texts_in("p") if "One" in text or "Two" in text] == [
        "One.",
        "Two.",
    ]
    links = [attributes["href"] for attributes in parsed.attributes("a")]
    ids = [attributes["id"] for attributes in parsed.attributes("section")]
    assert links == [f"#{name}" for name in ids]
    assert {"name": "viewport"}.items() <= parsed.attributes("meta")[1].items()


def test_everything_from_users_is_escaped() -> None:
    page = report_html(
        EVIL,
        [
            Section(
                EVIL,
                EVIL,
                [Table([{EVIL: EVIL, "cost": 1.0}], best_by="cost", how_to_read=EVIL)],
                [Picture(picture().figure, EVIL, EVIL)],
            )
        ],
        tiles=[Tile(EVIL, EVIL, EVIL)],
        lead=EVIL,
    )
    parsed = Page(page)
    assert "<script" not in page
    assert parsed.attributes("script") == []
    assert parsed.texts_in("h1") == parsed.texts_in("h2") == parsed.texts_in("td")[:1] == [EVIL]
    assert parsed.attributes("img")[0]["alt"] == EVIL


def test_nothing_is_loaded_from_outside() -> None:
    page = report_html("Report", [Section("A", pictures=[picture()])])
    parsed = Page(page)
    policy = parsed.attributes("meta")[2]["content"]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not {"link", "script", "iframe"} & {tag for tag, _ in parsed.elements}
    assert re.findall(r"https?:|url\(|@import", page) == []
    for attributes in parsed.attributes("img"):
        assert str(attributes["src"]).startswith("data:image/png;base64,")


def test_pictures_are_embedded_with_text_for_those_who_cannot_see_them() -> None:
    parsed = Page(report_html("Report", [Section("A", pictures=[picture("a rising line")])]))
    (image,) = parsed.attributes("img")
    content = base64.b64decode(str(image["src"]).partition(",")[2], validate=True)
    assert content.startswith(b"\x89PNG")
    assert image["alt"] == "a rising line"
    assert "How to read this:" in parsed.texts_in("b")


def test_numbers_are_on_the_right_and_the_best_rows_are_marked() -> None:
    rows: list[dict[str, Cell]] = [
        {"method": "nearest", "Y": 3.14159, "seconds": None},
        {"method": "reloc", "Y": np.float64(1.25), "seconds": 12_345},
        {"method": "otos", "Y": 1.25, "seconds": 0.5},
        {"method": "none", "Y": float("nan"), "extra": "text"},
    ]
    parsed = Page(report_html("Report", [Section("A", tables=[Table(rows, best_by="Y")])]))
    assert parsed.texts_in("th") == ["method", "Y", "seconds", "extra"]
    classes = [attributes.get("class") for attributes in parsed.attributes("th")]
    assert classes == [None, "number", "number", None]
    marks = [attributes.get("class") for attributes in parsed.attributes("tr")]
    assert marks == [None, None, "best", "best", None]
    dash = "\N{EN DASH}"
    cells = parsed.texts_in("td")
    assert cells[:4] == ["nearest", "3.142", dash, dash]
    assert cells[4:8] == ["reloc", "1.25", "12,345", dash]
    assert cells[12:] == ["none", dash, dash, "text"]


@pytest.mark.parametrize("rows", [[], [{}]])
def test_an_empty_table_is_no_error(rows: list[dict[str, str]]) -> None:
    parsed = Page(report_html("Report", [Section("A", tables=[Table(rows, best_by="Y")])]))
    assert parsed.texts_in("td") == []


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(tmp_path / name, "Report", [Section("A", pictures=[picture()])])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_page_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write the report"):
        write_report(tmp_path / "missing" / "a.html", "Report", [])


def test_a_section_links_files_beside_the_page_and_shows_its_command() -> None:
    section = Section("One", links=[Link("the <table>", "a b:c.csv")], command="run <it> --now")
    page = report_html("Links", [section])
    assert '<a href="./a%20b%3Ac.csv">the &lt;table&gt;</a>' in page
    assert "<pre><code>run &lt;it&gt; --now</code></pre>" in page
