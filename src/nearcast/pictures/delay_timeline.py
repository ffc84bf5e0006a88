"""How the delay of messages went, second by second, and what happened meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nearcast.pictures.style import house_style, method_colours, new_figure, plain, plain_log_axis

__all__ = ["draw_delay_timeline"]


@house_style()
def draw_delay_timeline(
    by_second: Sequence[tuple[float, float]], marks: Mapping[str, float]
) -> Figure:
    """Return delays against the time at which messages were sent.

    Parameters
    ----------
    by_second
        Seconds since the start, and ms.
    marks
        What happened, and when, in seconds since the start.
    """
    figure = new_figure(10, 4.2)
    axes = figure.subplots()
    seconds = [at_s for at_s, _ in by_second]
    colour = method_colours(["optimised"])["optimised"]
    axes.plot(seconds, [ms for _, ms in by_second], marker="o", markersize=4, color=colour)
    # pauses of seconds and delays of milliseconds, both to be seen
    plain_log_axis(axes, "y")
    for name, at_s in marks.items():
        axes.axvline(at_s, color="#555555", linestyle="--", linewidth=1)
        axes.annotate(
            plain(name),
            (at_s, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, -4),
            textcoords="offset points",
            va="top",
            fontsize=10,
        )
    axes.set_xlabel("sent, in seconds since the start")
    axes.set_ylabel("mean delay, ms")
    axes.set_title("From publisher to subscriber, while the site plans itself anew")
    return figure
