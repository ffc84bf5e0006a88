"""``nearcast flow``: data flows of components that are connected by topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.flow_site import move, run, show, stop
from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.flow.flow import Component, Mapping

__all__ = ["flow"]


@click.group()
def flow() -> None:
    """Check and run data flows: processors in a row, connected by topics.

    \b
      nearcast flow example --out people.toml
      nearcast flow check people.toml
      nearcast flow run people.toml --site city
      nearcast flow show --site city
      nearcast flow move people count --from cloud --to 0 --half --site city
      nearcast flow stop people --site city
    """


for _command in (run, show, move, stop):
    flow.add_command(_command)


@flow.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Say what is wrong with a flow, all of it; show its components when nothing is.

    Cycles, topics that nobody makes or reads, processors that are unknown or refuse their
    options, mappings that are missing or cannot be loaded. Exits with 2 when there is a mistake.
    """
    from nearcast.flow.check import check_flow
    from nearcast.flow.flow import read_flow

    found = read_flow(file)
    mistakes = check_flow(found)
    if as_json:
        import msgspec

        print_json({**msgspec.to_builtins(found), "mistakes": mistakes})
        if mistakes:
            raise SystemExit(2)
        return
    if mistakes:
        raise ConfigError(
            f"{file}: {len(mistakes)} mistake{'s' * (len(mistakes) > 1)}\n  "
            + "\n  ".join(mistakes)
        )
    print_table(
        ["component", "processor", "reads", "makes", "messages that meet", "state"],
        [_row(name, one) for name, one in found.components.items()],
    )
    click.echo(f"flow {found.name!r} is right; devices publish: {', '.join(found.sources)}")


@flow.command()
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new file.  [default: standard output]"
)
def example(out: Path | None) -> None:
    """Write the flow of a city that watches for people: detect, describe, match, count."""
    from nearcast.flow.example import PEOPLE

    if out is None:
        click.echo(PEOPLE, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(PEOPLE)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror or error}") from None
    click.echo(f"wrote {out}; try: nearcast flow check {out}")


@flow.command()
@click.option("--camera", default="north", show_default=True, help="The camera's name.")
@click.option("--topic", default="camera/frames", show_default=True)
@click.option("--count", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def camera(camera: str, topic: str, count: int, seed: int) -> None:
    """Make frames of a camera that is none, as lines for `nearcast client publish --json`.

    Some of four people walk through them; the shipped flow finds, recognises and counts them.
    """
    import json
    from itertools import islice
    from random import Random

    from nearcast.broker.processors.frames import write_frame
    from nearcast.flow.camera import synthetic_frames

    for frame in islice(synthetic_frames(camera, Random(seed)), count):
        click.echo(json.dumps({"topic": topic, "payload": write_frame(frame).decode()}))


def _row(name: str, component: Component) -> tuple[str, ...]:
    from nearcast.broker.processor import MergingProcessor
    from nearcast.broker.registry import make_processor
    from nearcast.flow.check import is_stateful

    if not is_stateful(component):
        state = "none"
    elif isinstance(make_processor(component.processor, component.options), MergingProcessor):
        state = "kept, can be merged"
    else:
        state = "kept"
    return (
        name,
        component.processor,
        ", ".join(component.inputs),
        component.output,
        _meeting(component.mapping),
        state,
    )


def _meeting(mapping: Mapping | None) -> str:
    if mapping is None or mapping == "shuffle":
        return "any (shuffle)"
    return f"equal {mapping.field or mapping.function}"
