"""What the verbs on Spark share: where Spark runs, what it shows, a bar that follows its stages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.pipeline.sweep.run import SweepProgress

__all__ = ["SparkOptions", "cell_progress", "spark_options", "spark_session", "stage_progress"]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options as given."""

    master: str | None
    driver_memory: str | None
    conf: dict[str, str]
    explain: bool
    quick_compiler: bool = False
    """Embedded: the JVM spends no time on the best machine code."""

    def print_plan(self) -> Callable[[str, str], None] | None:
        """Return what prints a table's physical plan, None unless --explain was given."""
        return _print_plan if self.explain else None


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master, --driver-memory, --conf and --explain; the command gets `spark_with`."""

    @click.option(
        "--master",
        help="Where Spark runs: local[*] embeds it here, spark://HOST:PORT is a cluster; yarn and "
        "k8s://... work as spark-submit conventions say.  [default: spark-submit's, else local[*]]",
    )
    @click.option(
        "--driver-memory",
        help="Heap of the driver's JVM.  [default: spark-submit's, else 2g]",
    )
    @click.option(
        "--conf",
        "conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any Spark setting; may be given several times.",
    )
    @click.option("--explain", is_flag=True, help="Show Spark's physical plan of each table.")
    @wraps(command)
    def with_options(
        *arguments: Any,
        master: str | None,
        driver_memory: str | None,
        conf: tuple[str, ...],
        explain: bool,
        **rest: Any,
    ) -> Any:
        settings = dict(_pair(text) for text in conf)
        options = SparkOptions(master, driver_memory, settings, explain)
        return command(*arguments, spark_with=options, **rest)

    return with_options


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise click.BadParameter(
            f"{text!r} is not of the form spark.KEY=VALUE", param_hint="--conf"
        )
    return key, value


@contextmanager
def spark_session(options: SparkOptions) -> Iterator[SparkSession]:
    """Give a session and say where its pages are."""
    from nearcast.pipeline.session import SparkSettings, open_session

    settings = SparkSettings(
        master=options.master,
        driver_memory=options.driver_memory,
        conf=options.conf,
        is_short_lived=options.quick_compiler,
    )
    with open_session(settings) as session:
        context = session.sparkContext
        if address := context.uiWebUrl:
            click.echo(f"Spark {session.version} at {context.master}, pages at {address}", err=True)
        yield session


@contextmanager
def stage_progress(session: SparkSession) -> Iterator[Callable[[str], None]]:
    """Show a bar over the tasks of the stage under way, or lines where there is no terminal.

    Call the yielded function with the stage's name when it begins.
    """
    if not sys.stderr.isatty():
        with _stage_lines() as begin:
            yield begin
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from nearcast.pipeline.progress import TaskProgress, watch_tasks

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        current: list[Any] = []

        def show(tasks: TaskProgress) -> None:
            if current:
                bars.update(current[-1], completed=tasks.done, total=tasks.total)

        def begin(name: str) -> None:
            finish()
            current.append(bars.add_task(name, total=None))

        def finish() -> None:
            if current:
                bars.stop_task(current[-1])

        with watch_tasks(session, show):
            yield begin
            finish()


@contextmanager
def _stage_lines() -> Iterator[Callable[[str], None]]:
    from nearcast.planning.stopping import Stopwatch

    running: list[tuple[str, Stopwatch]] = []

    def finish() -> None:
        while running:
            name, watch = running.pop()
            click.echo(f"stage {name}: {watch.seconds():.1f} s", err=True)

    def begin(name: str) -> None:
        finish()
        running.append((name, Stopwatch()))
        click.echo(f"stage {name} begins", err=True)

    yield begin
    finish()


@contextmanager
def cell_progress() -> Iterator[Callable[[SweepProgress], None]]:
    """Show a bar over the combinations of a sweep, or lines where there is no terminal."""
    if not sys.stderr.isatty():
        yield _cell_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def show(progress: SweepProgress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bars.update(
                task,
                completed=progress.done,
                total=progress.total,
                description=", ".join(progress.under_way[:2]) + failed,
            )

        yield show


def _cell_lines() -> Callable[[SweepProgress], None]:
    """Return what writes a line for each tenth of a sweep."""
    told = -1

    def show(progress: SweepProgress) -> None:
        nonlocal told
        settled = progress.done + progress.failed
        tenth = 10 * settled // max(progress.total, 1)
        if tenth > told:
            told = tenth
            failed = f", {progress.failed:,} failed" if progress.failed else ""
            click.echo(f"{settled:,} of {progress.total:,} combinations{failed}", err=True)

    return show


def _print_plan(table: str, plan: str) -> None:
    click.echo(f"-- {table}\n{plan}", err=True)
