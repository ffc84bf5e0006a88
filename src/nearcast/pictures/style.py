"""The look that all pictures share: colours by method, fonts, and saving to a file."""

from __future__ import annotations

import textwrap
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation

from nearcast.errors import ConfigError, OutputError

__all__ = [
    "OVERLOAD_COLOUR",
    "caption",
    "counted",
    "figure_bytes",
    "house_style",
    "legend_below",
    "legend_of_panels",
    "method_colours",
    "new_figure",
    "number_text",
    "plain",
    "plain_log_axis",
    "save_figure",
    "shortened",
    "title_text",
]

# Okabe and Ito's colours, told apart under every common colour blindness, plus grey and wine.
_METHOD_COLOURS = {
    "random": "#8C8C8C",
    "nearest": "#E69F00",
    "region": "#56B4E9",
    "relation": "#CC79A7",
    "reloc": "#0072B2",
    "reloc-together": "#332288",
    "otos": "#D55E00",
    "otos-centre": "#882255",
    "exact": "#000000",
    "optimised": "#009E73",
}
_FURTHER_COLOURS = ("#117733", "#999933", "#44AA99", "#AA4499", "#661100", "#DDCC77", "#6699CC")
OVERLOAD_COLOUR = "#B2182B"
_LEGEND_DROP_POINTS = 45
_TITLE_CHARACTERS_PER_INCH = 8
_SMALL_PRINT_PER_INCH, _SMALL_PRINT_LINE_IN = 13, 0.16
_LEGEND_ROW_IN = 0.215
# DejaVu comes with matplotlib; the others fill in its gaps where one is installed.
_FONTS = ("Noto Sans CJK JP", "IPAexGothic", "IPAGothic", "Hiragino Sans", "Yu Gothic", "Meiryo")

_STYLE: dict[Any, object] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.labelsize": 11,
    "figure.dpi": 100,
    "font.size": 11,
    "grid.color": "#E4E4E4",
    "legend.fontsize": 10,
    "legend.frameon": False,
    "svg.hashsalt": "nearcast",
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Set the look for as long as it lasts, whatever the user's matplotlib settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        installed = set(fontManager.get_font_names())
        matplotlib.rcParams["font.family"] = [
            "DejaVu Sans",
            *(font for font in _FONTS if font in installed),
        ]
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure that makes room for its labels."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """Return a colour for each method; a known method has the same one in every picture.

    Other names take a colour by their checksum, or the next free one if that is taken.
    """
    colours: dict[str, str] = {}
    for method in methods:
        if method in _METHOD_COLOURS:
            colours[method] = _METHOD_COLOURS[method]
            continue
        count = len(_FURTHER_COLOURS)
        wanted = zlib.crc32(method.encode()) % count
        order = [_FURTHER_COLOURS[(wanted + step) % count] for step in range(count)]
        free = [colour for colour in order if colour not in colours.values()]
        colours[method] = (free or order)[0]
    return colours


def plain(text: str) -> str:
    """Return a user's text so that matplotlib shows it as it is.

    A dollar sign would start mathematics, and a legend hides what begins with an underscore.
    """
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def title_text(text: str, width_in: float) -> str:
    """Return a title broken into lines that fit a picture of this width."""
    return plain("\n".join(textwrap.wrap(text, int(_TITLE_CHARACTERS_PER_INCH * width_in))))


def shortened(text: str, most: int = 14) -> str:
    """Return the text cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def number_text(value: float) -> str:
    """Return a number with three significant digits, thousands apart: 0.0123, 1.23, 12,300."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def plain_log_axis(axes: Axes, which: str) -> None:
    """Make an axis logarithmic with plain numbers (0.1, 1, 1,000) at its ticks."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    # Below two decades the powers of ten alone are too few ticks.
    few = high / low < 100
    axis.set_minor_formatter(
        FuncFormatter(
            lambda value, _: number_text(value) if few and f"{value:e}"[0] in "25" else ""
        )
    )


def legend_below(axes: Axes, handles: Sequence[Artist] | None = None, columns: int = 2) -> None:
    """Put the legend under the axis label, where it hides no data."""
    figure = axes.get_figure(root=True)
    if handles is None:
        handles = axes.get_legend_handles_labels()[0]
    if figure is None or not handles:
        return
    drop = ScaledTranslation(0, -_LEGEND_DROP_POINTS / 72, figure.dpi_scale_trans)
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=axes.transAxes + drop,
        ncols=columns,
        borderaxespad=0,
        borderpad=0,
    )


def legend_of_panels(
    figure: Figure, handles: Sequence[Artist], columns: int, small_print: str
) -> None:
    """Put one legend of at most `columns` under all panels, and small print under the legend."""
    columns = _fitting(handles, columns, figure.get_figwidth())
    text = "\n".join(textwrap.wrap(small_print, int(_SMALL_PRINT_PER_INCH * figure.get_figwidth())))
    lines, rows = len(text.splitlines()), -(-len(handles) // columns)
    print_in = _SMALL_PRINT_LINE_IN * lines + 0.08
    height_in = figure.get_figheight()
    below = (print_in + _LEGEND_ROW_IN * rows + 0.12) / height_in
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.0, below, 1.0, 1.0 - below))  # type: ignore[call-arg]
    figure.legend(
        handles=list(handles),
        loc="lower left",
        bbox_to_anchor=(0.0, print_in / height_in),
        ncols=columns,
        borderaxespad=0.3,
    ).set_in_layout(False)
    figure.text(
        0.01, 0.08 / height_in, plain(text), fontsize=9, color="#555555", va="bottom"
    ).set_in_layout(False)


def _fitting(handles: Sequence[Artist], columns: int, width_in: float) -> int:
    """Return how many columns of a legend fit a width; matplotlib fills one after the other."""
    letters = [len(str(handle.get_label())) for handle in handles]
    for count in range(columns, 1, -1):
        # The first columns are the longer ones.
        parts = np.array_split(letters, count)
        if sum(0.6 + 0.082 * int(part.max(initial=0)) for part in parts) <= width_in:
            return count
    return 1


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 server, 2,000 servers."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def caption(figure: Figure, text: str) -> None:
    """Write small print under the figure."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=9, color="#555555")


@house_style()
def figure_bytes(figure: Figure, file_format: str = "png", dpi: int = 100) -> bytes:
    """Return the picture as a file's content; drawing again gives the same bytes."""
    stamp = {"Date": None} if file_format == "svg" else {"Software": None}
    target = BytesIO()
    with warnings.catch_warnings():
        # A name in a script that no font has is drawn as boxes: not worth a warning a letter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(target, format=file_format, dpi=dpi, metadata=stamp)
    return target.getvalue()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write the picture as PNG or SVG, by the suffix of the path.

    Raises
    ------
    ConfigError
        When the suffix is neither ``.png`` nor ``.svg``.
    OutputError
        When the file cannot be written.
    """
    path = Path(path)
    file_format = path.suffix.lower().lstrip(".")
    if file_format not in ("png", "svg"):
        raise ConfigError(f"a picture's name must end in .png or .svg, not {path.name!r}")
    content = figure_bytes(figure, file_format)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"{path}: cannot write the picture: {error.strerror}") from error
