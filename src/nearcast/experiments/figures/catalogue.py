"""All figures by name, in the order of the papers."""

from __future__ import annotations

from nearcast.errors import ConfigError
from nearcast.experiments.figures.examples2021 import FIGURES_EXAMPLES
from nearcast.experiments.figures.figure import PaperFigure
from nearcast.experiments.figures.lasr2017 import FIGURES_LASR
from nearcast.experiments.figures.placement2022 import FIGURES_2022
from nearcast.experiments.figures.preliminary2021 import FIGURES_PRELIMINARY
from nearcast.experiments.figures.region_sweep import FIGURE_16
from nearcast.experiments.figures.reloc2020 import FIGURES_2020
from nearcast.experiments.figures.sigma_sweep import FIGURE_14
from nearcast.experiments.figures.spool_sweep import FIGURE_15

__all__ = ["FIGURES", "find_figures"]

_IN_ORDER = (
    *FIGURES_2020,
    FIGURES_EXAMPLES["2021-9"],
    FIGURES_PRELIMINARY["2021-10"],
    FIGURES_PRELIMINARY["2021-11"],
    FIGURES_EXAMPLES["2021-12"],
    FIGURES_EXAMPLES["2021-13"],
    FIGURE_14,
    FIGURE_15,
    FIGURE_16,
    *FIGURES_2022,
    *FIGURES_LASR,
)
FIGURES: dict[str, PaperFigure] = {figure.name: figure for figure in _IN_ORDER}


def find_figures(name: str) -> list[PaperFigure]:
    """Return one figure, all of a year (or of ``lasr``), or all of them (``all``).

    Raises
    ------
    ConfigError
        When there is no such figure.
    """
    if name == "all":
        return list(FIGURES.values())
    found = [figure for key, figure in FIGURES.items() if name in (key, key.split("-")[0])]
    if not found:
        raise ConfigError(f"there is no figure {name!r}; there are: all, {', '.join(FIGURES)}")
    return found
