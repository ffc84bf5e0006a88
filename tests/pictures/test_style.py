"""Colours are stable, user text is shown as it is, and files are reproducible."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.figure import Figure

from nearcast.errors import ConfigError, OutputError
from nearcast.pictures.style import (
    counted,
    figure_bytes,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    number_text,
    plain,
    plain_log_axis,
    save_figure,
    shortened,
    title_text,
)

KNOWN = (
    "random",
    "nearest",
    "region",
    "relation",
    "reloc",
    "reloc-together",
    "otos",
    "otos-centre",
    "exact",
    "optimised",
)


def simple_figure(name: str = "a line") -> Figure:
    figure = new_figure(4, 3)
    axes = figure.add_subplot()
    axes.plot([1, 2], [3, 4], label=plain(name))
    legend_below(axes)
    return figure


def test_every_method_of_nearcast_has_its_own_colour() -> None:
    assert len(set(method_colours(KNOWN).values())) == len(KNOWN)


def test_a_method_keeps_its_colour_whatever_else_is_in_the_picture() -> None:
    alone = {name: method_colours([name])[name] for name in [*KNOWN, "mine"]}
    together = method_colours(["mine", *reversed(KNOWN)])
    assert together == alone


def test_methods_of_users_get_colours_that_differ_from_all_others() -> None:
    names = [*KNOWN, *(f"own-{number}" for number in range(7))]
    assert len(set(method_colours(names).values())) == len(names)


def test_more_methods_than_colours_still_get_one_each() -> None:
    names = [f"own-{number}" for number in range(30)]
    assert set(method_colours(names)) == set(names)


@pytest.mark.parametrize("name", ["$\\frac{", "$a$ and $b$", "_hidden", "地図", "<b>&amp;"])
def test_names_of_users_are_drawn_without_a_warning(name: str) -> None:
    figure = simple_figure(name)
    assert figure_bytes(figure).startswith(b"\x89PNG")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [plain(name)]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_drawing_and_saving_again_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    save_figure(simple_figure(), path)
    assert path.read_bytes() == figure_bytes(simple_figure(), suffix)


def test_an_svg_file_is_xml(tmp_path: Path) -> None:
    save_figure(simple_figure(), tmp_path / "a.svg")
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg, not 'a\.gif'"):
        save_figure(simple_figure(), tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write the picture"):
        save_figure(simple_figure(), tmp_path / "missing" / "a.png")


def test_the_house_style_leaves_the_users_settings_alone() -> None:
    with matplotlib.rc_context({"font.size": 31}):
        with house_style():
            assert matplotlib.rcParams["font.size"] != 31
        assert matplotlib.rcParams["font.size"] == 31


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (123.4, "123"), (12345.6, "12,346")],
)
def test_numbers_have_three_digits_or_thousands_apart(value: float, text: str) -> None:
    assert number_text(value) == text


def test_words_are_counted_cut_and_wrapped() -> None:
    assert (counted(1, "server"), counted(2000, "server")) == ("1 server", "2,000 servers")
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
    assert title_text("word " * 12, 5).count("\n") == 1


def test_a_logarithmic_axis_shows_plain_numbers() -> None:
    axes = new_figure(4, 3).add_subplot()
    axes.plot([10, 100_000], [1, 2])
    plain_log_axis(axes, "x")
    assert axes.get_xscale() == "log"
    assert axes.xaxis.get_major_formatter()(100_000, 0) == "100,000"
