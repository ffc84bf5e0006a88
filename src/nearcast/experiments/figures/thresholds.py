"""What the papers' vague words are judged by, each with its reason; nothing else judges.

Fixed before any run, but for those that `FIXED_AFTER_A_RUN` names.
"""

from __future__ import annotations

__all__ = [
    "BY_FAR_FEW",
    "CHANCE_DEVIATIONS",
    "COMMAND_SHARE_POINTS",
    "EDGE_MS",
    "FIXED_AFTER_A_RUN",
    "HIGH_RATIO",
    "INCREASED_K",
    "LITTLE",
    "LOCAL_KM",
    "MANY",
    "NEAR_SHARE",
    "NOT_SO_MUCH_MS",
    "PAPER_K",
    "QUERY_MS",
    "RECONFIGURED_MS",
    "SAME_COUNT",
    "SETTLED_S",
    "SHARE_POINTS",
    "SHORT_SHARE",
    "TWICE",
    "WIDE_KM",
]

HIGH_RATIO = 0.8
"""2020, "under high requirement ratio": the upper three of table II's five, 0.81 and above."""
NOT_SO_MUCH_MS = 6.0
"""2020: "does not cause so much resource exhaustion which gives a delay of more than 6 ms"."""
WIDE_KM = 5.0
"""2021, figure 14: "if sigma >= 5"."""
LITTLE = 0.25
"""2021, "the increase is small", "does not vary so much": less than a quarter. Over sigma the same
delays differ by a factor of 2 and more, and the paper's graphs, from 0 on, show a quarter clearly."""
LOCAL_KM = 5.0
"""2021, figure 16: "locality is small, that is sigma = 1, 5"."""
PAPER_K = 4
"""K of the paper's other figures: the largest that it is known to have tried."""
INCREASED_K = 0.5
"""2021, figure 16, "minimised by increasing K": with a K of more than half of the largest drawn."""
NEAR_SHARE = 1 / 3
"""2022, "near pairs" and "far pairs": the nearest and the furthest third, so that both are many and
have a third between them."""
SHORT_SHARE = 0.5
"""2022, topics with "short" and with "longer" permissible delays: below and above the median."""
MANY = 0.1
"""2022, "many pairs": a tenth at least of the pairs that the sentence is about, and more of them than
change the other way. The paper's graphs show a few dozen pairs, of which a tenth can be seen."""
EDGE_MS = 5.0
"""LASR: "mostly within 5 ms"."""
QUERY_MS = 10.0
"""LASR: "at least 10 ms"."""
RECONFIGURED_MS = 100.0
"""LASR: "less than 100 ms"."""
COMMAND_SHARE_POINTS = 5.0
"""LASR, half of the messages after the command: two standard deviations of 500 random choices. Where
fewer were made, three of theirs (`CHANCE_DEVIATIONS`): what follows from a construction must not fail by chance."""
CHANCE_DEVIATIONS = 3.0
SETTLED_S = 0.2
"""LASR: after the command; from then on a split is over. Twice what the paper gives it."""
SHARE_POINTS = 2.2
"""LASR, a quarter of the run: the same in points of a trial's 1,000 messages, and where there are
fewer."""
BY_FAR_FEW = 5.0
"""LASR, "a few": a tenth of the 50 messages that are sent in a second."""
TWICE = 2.0
"""LASR: "more than twice"."""
SAME_COUNT = 1.0
"""LASR: misdelivered messages a trial by which a mean may differ and is still called the same."""

FIXED_AFTER_A_RUN = (
    f"many pairs (2022: {100 * MANY:g} %; the first run was judged by more than the other way alone)",
    f"the margin of {CHANCE_DEVIATIONS:g} standard deviations where few messages were sent (LASR)",
)
"""In words, for the page."""
