"""What the verbs that make a scenario do at the end: write it and say what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from nearcast.cli.console import print_json
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.domain.tables import TableFormat

__all__ = ["describe", "written"]


def written(
    made: Scenario, out: Path, table_format: TableFormat, overwrite: bool, as_json: bool
) -> None:
    """Write a scenario and say what it holds."""
    write_scenario(made, out, table_format=table_format, overwrite=overwrite)
    facts = describe(made)
    if as_json:
        print_json({"folder": str(out), **facts, **made.settings.extra})
        return
    click.echo(
        f"{out}: {facts['servers']:,} servers, {facts['clients']:,} clients, "
        f"{facts['topics']:,} topics, {facts['members']:,} members"
    )
    counts = made.settings.extra.get("import")
    if isinstance(counts, dict):
        click.echo(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counts.items()))
    click.echo(f"next: nearcast compare {out}")


def describe(made: Scenario) -> dict[str, Any]:
    """Return the facts of a scenario that a user wants to see first."""
    members, servers = made.members, made.servers
    spool = made.topics.spool
    sizes = np.bincount(members.topic, minlength=len(made.topics))
    publishers = np.bincount(members.topic, members.publishes, len(made.topics))
    return {
        "name": made.settings.name,
        "width_km": made.settings.width_km,
        "height_km": made.settings.height_km,
        "servers": len(servers),
        "clients": len(made.clients),
        "topics": len(made.topics),
        "members": len(members),
        "publishing_members": int(members.publishes.sum()),
        "subscribing_members": int(members.subscribes.sum()),
        "mean_topic_size": float(sizes.mean()),
        "largest_topic": int(sizes.max()),
        "storage_demand_share": float(spool.sum() / servers.storage.sum()),
        "compute_demand_share": float((spool * publishers).sum() / servers.compute.sum()),
        "measured_delays": made.client_server_ms is not None or made.server_server_ms is not None,
    }
