"""The report page: one HTML file with tables and pictures inside, nothing loaded from outside."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TypeGuard
from urllib.parse import quote

from matplotlib.figure import Figure

from nearcast.errors import OutputError
from nearcast.pictures.report_style import REPORT_CSS
from nearcast.pictures.style import figure_bytes

__all__ = [
    "Cell",
    "Film",
    "Link",
    "Picture",
    "Section",
    "Table",
    "Tile",
    "report_html",
    "write_report",
]

Cell = str | int | float | None
_PICTURE_DPI = 150
"""Sharp on a screen with small pixels as well."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A key number of the summary."""

    label: str
    value: Cell
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by column name; the columns are those of the first row, then any others."""

    rows: Sequence[Mapping[str, Cell]]
    best_by: str | None = None
    """Column whose smallest number marks the best rows."""
    how_to_read: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure with what a reader who cannot see it should know."""

    figure: Figure
    alternative: str
    how_to_read: str = ""


@dataclass(frozen=True, slots=True)
class Film:
    """An animated GIF, with the words of a picture."""

    data: bytes
    alternative: str
    how_to_read: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A file beside the page, or a heading of it."""

    text: str
    target: str
    """A path relative to the page."""


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A heading with text, tables, pictures, links and a command, in this order."""

    heading: str
    text: str = ""
    """Paragraphs, separated by empty lines."""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture | Film] = ()
    links: Sequence[Link] = ()
    command: str = ""
    """What to type to get this section's content."""


def write_report(
    path: str | Path,
    title: str,
    sections: Sequence[Section],
    *,
    tiles: Sequence[Tile] = (),
    lead: str = "",
) -> None:
    """Write the page; see `report_html`.

    Raises
    ------
    OutputError
        When the file cannot be written.
    """
    page = report_html(title, sections, tiles=tiles, lead=lead)
    try:
        Path(path).write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot write the report: {error.strerror}") from error


def report_html(
    title: str, sections: Sequence[Section], *, tiles: Sequence[Tile] = (), lead: str = ""
) -> str:
    """Return the whole page; every text is escaped, the same input gives the same page."""
    links = "".join(
        f'<li><a href="#section-{number}">{_escaped(section.heading)}</a></li>'
        for number, section in enumerate(sections, 1)
    )
    body = "\n".join(_section(number, section) for number, section in enumerate(sections, 1))
    # The policy forbids scripts and anything from outside, should an escape ever be forgotten.
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{_escaped(title)}</title>
<style>{REPORT_CSS}</style>
</head>
<body>
<header>
<h1>{_escaped(title)}</h1>
{_paragraphs(lead)}
{_tiles(tiles)}
{f"<nav><ul>{links}</ul></nav>" if len(sections) > 1 else ""}
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _section(number: int, section: Section) -> str:
    parts = [
        f'<section id="section-{number}">',
        f"<h2>{_escaped(section.heading)}</h2>",
        _paragraphs(section.text),
        *map(_table, section.tables),
        *map(_picture, section.pictures),
        _links(section.links),
        f"<pre><code>{_escaped(section.command)}</code></pre>" if section.command else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _tiles(tiles: Sequence[Tile]) -> str:
    if not tiles:
        return ""
    cards = "".join(
        f"<div><dt>{_escaped(tile.label)}</dt><dd>{_escaped(_cell_text(tile.value))}"
        + (f"<small>{_escaped(tile.note)}</small>" if tile.note else "")
        + "</dd></div>"
        for tile in tiles
    )
    return f'<dl class="tiles">{cards}</dl>'


def _table(table: Table) -> str:
    columns = list(dict.fromkeys(name for row in table.rows for name in row))
    numeric = {
        name
        for name in columns
        if any(_is_number(row.get(name)) for row in table.rows)
        and all(row.get(name) is None or _is_number(row.get(name)) for row in table.rows)
    }

    def side(name: str) -> str:
        return ' class="number"' if name in numeric else ""

    head = "".join(f'<th scope="col"{side(name)}>{_escaped(name)}</th>' for name in columns)
    best = _best_rows(table)
    lines = []
    for number, row in enumerate(table.rows):
        cells = "".join(
            f"<td{side(name)}>{_escaped(_cell_text(row.get(name)))}</td>" for name in columns
        )
        lines.append(f'<tr class="best">{cells}</tr>' if number in best else f"<tr>{cells}</tr>")
    note = table.how_to_read
    if best:
        note = f"{note} \N{BLACK STAR} marks the smallest {table.best_by}.".strip()
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{_how_to_read(note)}"
    )


def _best_rows(table: Table) -> set[int]:
    if table.best_by is None:
        return set()
    values = {
        number: value
        for number, row in enumerate(table.rows)
        if _is_number(value := row.get(table.best_by)) and value == value
    }
    least = min(values.values(), default=None)
    return {number for number, value in values.items() if value == least}


def _picture(picture: Picture | Film) -> str:
    if isinstance(picture, Film):
        content = base64.b64encode(picture.data).decode("ascii")
        return (
            f'<figure><img alt="{_escaped(picture.alternative)}"'
            f' src="data:image/gif;base64,{content}">'
            f"<figcaption>{_how_to_read(picture.how_to_read)}</figcaption></figure>"
        )
    content = base64.b64encode(figure_bytes(picture.figure, dpi=_PICTURE_DPI)).decode("ascii")
    # The width in points keeps the text of all pictures at one size on a wide screen.
    width = round(picture.figure.get_figwidth() * 100)
    return (
        f'<figure><div class="scroll"><img alt="{_escaped(picture.alternative)}" width="{width}"'
        f' src="data:image/png;base64,{content}"></div>'
        f"<figcaption>{_how_to_read(picture.how_to_read)}</figcaption></figure>"
    )


def _links(links: Sequence[Link]) -> str:
    if not links:
        return ""
    # A relative path with a colon would be read as another scheme.
    anchors = " \N{MIDDLE DOT} ".join(
        f'<a href="./{quote(link.target)}">{_escaped(link.text)}</a>' for link in links
    )
    return f"<p>{anchors}</p>"


def _how_to_read(text: str) -> str:
    return f'<p class="how"><b>How to read this:</b> {_escaped(text)}</p>' if text else ""


def _paragraphs(text: str) -> str:
    parts = (part.strip() for part in text.split("\n\n"))
    return "\n".join(f"<p>{_escaped(part)}</p>" for part in parts if part)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _cell_text(value: Cell) -> str:
    """Return a cell as text: whole numbers with thousands apart, others to four digits."""
    if value is None or value != value:
        return "\N{EN DASH}"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, Integral) or 10_000 <= abs(value) < float("inf"):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
