"""A driver to be killed: runs cells one after the other and never ends the third."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.sweep.cell import SweepCell
from nearcast.pipeline.sweep.run import run_sweep
from pipeline.sweep_cells import cells_of_seeds, counting


def main(out: Path, log: Path) -> None:
    def hang(cell: SweepCell) -> None:
        while cell.seed == 2:
            time.sleep(0.1)

    with open_session(SparkSettings(master="local[1]", ui=False)) as spark:
        run_sweep(spark, cells_of_seeds(4), out, compute=counting(log, hang))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
