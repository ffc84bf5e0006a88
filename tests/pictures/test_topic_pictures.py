"""Topics on the map, their sizes, and the delays of their pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.pictures.pair_scatter import PairDelays, draw_pair_scatter
from nearcast.pictures.style import figure_bytes
from nearcast.pictures.topic_map import draw_topic_maps
from nearcast.pictures.topic_sizes import draw_topic_sizes


def only_axes(figure: Figure) -> Any:
    (axes,) = figure.axes
    return axes


def test_every_two_clients_of_a_topic_are_joined() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=3, overlap=0.3), seed=1)
    figure = draw_topic_maps({"three": scenario}, title="Topics")
    axes = only_axes(figure)
    found = {item.get_gid(): item for item in axes.collections if item.get_gid()}
    for topic, size in enumerate(np.bincount(scenario.members.topic)):
        assert len(found[f"topic-{topic}"].get_segments()) == size * (size - 1) // 2
    several = int(np.sum(np.bincount(scenario.members.client) > 1))
    assert len(found["several"].get_offsets()) == several > 0
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["clients of one topic", "client in several topics", "server"]


def test_clients_in_no_topic_are_shown_too() -> None:
    scenario = generate_placement2022(Placement2022(clients=30, topics=1), seed=1)
    figure = draw_topic_maps({"one": scenario}, title="Topics", note="Small print.")
    shown = sum(len(item.get_offsets()) for item in only_axes(figure).collections[:1])
    assert shown == 30 - len(scenario.members)
    assert figure.legends[0].get_texts()[-1].get_text() == "client in no topic"


def test_sizes_are_counted() -> None:
    figure = draw_topic_sizes(np.array([3, 5, 5]), title="Sizes", note="Three topics.")
    axes = only_axes(figure)
    assert [bar.get_height() for bar in axes.patches] == [1, 0, 2]
    assert axes.get_legend_handles_labels()[1] == ["mean 4.3"]
    assert figure_bytes(figure).startswith(b"\x89PNG")


def test_pairs_that_changed_are_joined_by_colour() -> None:
    distance_km = np.array([1.0, 2, 3, 4])
    before = PairDelays("minimal D1", np.array([1.0, 1, 1, 1]))
    after = PairDelays("minimal D3", np.array([0.5, 1, 2, 0.9]))
    figure = draw_pair_scatter(
        distance_km, before, after, title="Pairs", permissible_ms=0.8, ms_per_km=0.1, note="Note."
    )
    axes = only_axes(figure)
    faster, slower, old, new = axes.collections
    ends = [segment[:, 1].tolist() for segment in faster.get_segments()]
    assert ends == [[1, 0.5], [1, 0.9]]
    assert len(slower.get_segments()) == 1
    assert old.get_offsets().tolist() == np.column_stack([distance_km, before.ms]).tolist()
    assert new.get_offsets()[:, 1].tolist() == pytest.approx(after.ms.tolist())
    labels = axes.get_legend_handles_labels()[1]
    assert "2 of 4 pairs faster under minimal D3" in labels
    assert "permissible delay 0.8 ms" in labels
