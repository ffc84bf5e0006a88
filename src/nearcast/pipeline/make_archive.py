"""Make the archive of Spark's classes: ``make archive``, a minute and 180 MB, once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from nearcast.domain.plan import Model
from nearcast.errors import PipelineError
from nearcast.pipeline.class_archive import QUIET, archive_file
from nearcast.pipeline.java import java_home
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.pipeline.run import RunSettings, run_pipeline
from nearcast.pipeline.run_folder import open_run_folder
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.planning.request import PlanRequest

__all__ = ["make_archive"]

_SHAPE = LogShape(clients=40, topics=6, members=50, messages_per_member=2, dirty=0.1)


def make_archive(record: Callable[[str], object] | None = None) -> Path:
    """Make the archive, remove those of earlier Javas and Sparks, and return its file.

    Parameters
    ----------
    record : runs Java to its end with the options that it is given; None: for a small pipeline.

    Raises
    ------
    PipelineError
        When the run fails, or Java writes no archive.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    file = archive_file()
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        (record or _record_in_child)(f'"-XX:ArchiveClassesAtExit={partial}" {QUIET}')
        partial.replace(file)
        for other in file.parent.glob("classes-*.jsa"):
            if other != file:
                other.unlink()
    except OSError as reason:
        raise PipelineError(f"{file}: no archive was made: {reason.strerror}") from reason
    finally:
        partial.unlink(missing_ok=True)
    return file


def _record_in_child(java_options: str) -> None:
    # Java writes only after Python has ended, but holds the output open until it is done.
    command = [sys.executable, "-m", "nearcast.pipeline.make_archive", java_options]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode:
        raise PipelineError(f"the run to record failed: {said.stderr.strip()[-300:]}")


def _run_pipeline(java_options: str) -> None:
    """Use the classes of a usual run, quarantine included."""
    settings = SparkSettings(conf={"spark.driver.extraJavaOptions": java_options})
    with tempfile.TemporaryDirectory(prefix="nearcast-archive-") as folder:
        log, out = Path(folder, "log.csv"), Path(folder, "run")
        write_publication_log(log, _SHAPE, seed=1)
        request = PlanRequest(Model.RATIO, iterations=1000, bound_limit_s=0.1)
        with open_session(settings) as session, open_run_folder(out, overwrite=False) as run:
            run_pipeline(session, RunSettings([log], request=request), run)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _run_pipeline(sys.argv[1])
    else:
        made = make_archive()
        sys.stdout.write(f"{made}: {made.stat().st_size / 1e6:.0f} MB\n")
