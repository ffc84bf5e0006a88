"""The entry point: finds the verb, and turns errors into one line and an exit code."""

from __future__ import annotations

import logging
import signal
import sys
from importlib import import_module

import click

from nearcast.errors import NearcastError

__all__ = ["main", "nearcast"]

_VERBS = {
    "scenario": "Generate, import or show a scenario: servers, clients, topics, members.",
    "plan": "Decide homes and brokers of a scenario and say how far from optimal that is.",
    "evaluate": "Recompute the cost of any plan, also one written by hand.",
    "compare": "Plan a scenario by all methods and show them side by side.",
    "size": "Find the least storage and compute that reach a target delay.",
    "pipeline": "Run data work on Spark: raw logs to plans, evaluations, sweeps.",
    "reproduce": "Reproduce the published figures and compare them with the papers' findings.",
    "up": "Run a whole site on this machine: manager, cloud server, edge servers.",
    "site": "Keys and credentials of a site: issue, renew, revoke.",
    "serve": "Run one server of a site: manager, edge or cloud.",
    "status": "Show what a running site is doing.",
    "apply": "Have a running site go by another plan.",
    "replan": "Let a running site plan itself anew from its own log, round by round.",
    "processors": "Show or change which processor serves which topics of a site.",
    "flow": "Check data flows: processors connected by topics.",
    "kafka": "Topics of a site in Apache Kafka, event brokers there, alerts back to the site.",
    "client": "Publish, subscribe, report from scripts: JSON lines.",
    "bench": "Measure speed, memory and quality; prints tables, writes pictures.",
    "demo": "Learn from a city's log on Spark, plan, run the site, measure, write a report.",
}


class _LazyGroup(click.Group):
    """Imports a verb's module only when it is used, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command = getattr(import_module(f"nearcast.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


def _print_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"nearcast {version('nearcast')}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, to stderr.")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def nearcast(verbose: bool) -> None:
    """Geo-aware publish-process-subscribe on edge servers: plan, run, measure.

    A first round:

    \b
      nearcast scenario generate city --clients 300 --servers 9 --topics 40 --seed 1 --out city
      nearcast compare city --time-limit 2
      nearcast plan city --time-limit 2 --out city-plan
      nearcast evaluate city city-plan

    Every verb takes --json: exactly one JSON object on stdout; progress, warnings and logs go to
    stderr. Exit codes: 0 done, 2 your input or environment, 1 a bug.
    """
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line."""
    # as Ctrl-C: what was started is ended and what is temporary removed on the way out
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = nearcast.main(prog_name="nearcast", standalone_mode=False)
        if type(code) is int:  # click returns what a verb has ended with
            sys.exit(code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except NearcastError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error worth a traceback.
        sys.stderr.close()
        sys.exit(0)
    finally:
        signal.signal(signal.SIGTERM, before)
