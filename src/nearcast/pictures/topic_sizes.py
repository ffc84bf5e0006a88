"""How many members topics have."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from nearcast.domain.scenario import OffsetArray
from nearcast.pictures.style import caption, house_style, new_figure, title_text

__all__ = ["draw_topic_sizes"]


@house_style()
def draw_topic_sizes(sizes: OffsetArray, *, title: str, note: str) -> Figure:
    """Return the number of topics of each size, with the mean."""
    figure = new_figure(8, 4.6)
    axes = figure.add_subplot()
    values = np.arange(int(sizes.min()), int(sizes.max()) + 1)
    axes.bar(values, np.bincount(sizes)[values], width=0.8, color="#0072B2")
    mean = float(sizes.mean())
    axes.axvline(mean, color="black", linestyle="--", linewidth=1.6, label=f"mean {mean:.1f}")
    axes.set_xticks(values)
    axes.set_xlabel("publishers/subscribers of a topic |C_n|")
    axes.set_ylabel("topics")
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper right")
    axes.set_title(title_text(title, 8))
    caption(figure, note)
    return figure
