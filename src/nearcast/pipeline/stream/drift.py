"""Plan drift: what the plan in force costs under the traffic of now, and whether a new one pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.columns import Place
from nearcast.domain.json_files import read_json_object
from nearcast.domain.output_folder import PLAN_FILE
from nearcast.domain.plan import Model
from nearcast.domain.plan_in_force import read_plan_in_force
from nearcast.domain.scenario_files import read_scenario
from nearcast.domain.traffic import Traffic, bring_up_to_date
from nearcast.errors import PlanError
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stream.stream_settings import DriftSettings
from nearcast.pipeline.stream.traffic_tables import CLIENTS, MEMBERS
from nearcast.planning.request import PlanRequest
from nearcast.planning.switching import weigh_new_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DRIFT", "read_present_traffic", "weigh_plan"]

DRIFT = pa.schema(
    [
        ("batch", pa.int64()),
        ("now_s", pa.float64()),
        ("cost_before", pa.float64()),
        ("cost_after", pa.float64()),
        ("bound", pa.float64()),
        ("migrations", pa.int64()),
        ("trigger", pa.bool_()),
        ("reason", pa.string()),
        ("failed", pa.bool_()),
        ("moved_clients", pa.int64()),
        ("changed_members", pa.int64()),
        ("unknown_clients", pa.int64()),
        ("unknown_topics", pa.int64()),
    ]
)


def read_present_traffic(spark: SparkSession, version: Path, window_s: float) -> Traffic:
    """Return what a version of the tables says of the last window.

    Raises
    ------
    PipelineError
        When Spark fails.
    """
    now_s = json.loads((version / "now.json").read_text())["now_s"]
    since_s = now_s - window_s
    with clear_errors(f"reading {version}"):
        members = (
            spark.read.schema(MEMBERS)
            .parquet(str(version / "members"))
            .select(
                *("topic", "client", "subscribes", "rate_hz"),
                (sf.col("published_s") >= since_s).alias("is_active"),
                (sf.col("notified_s") >= since_s).alias("is_notified"),
            )
            .toArrow()
            .to_pylist()
        )
        clients = spark.read.schema(CLIENTS).parquet(str(version / "clients"))
        places = clients.where(sf.col("place_s").isNotNull()).toArrow().to_pylist()
    return Traffic(
        since_s=since_s,
        until_s=now_s,
        places_km={row["client"]: (row["x_km"], row["y_km"]) for row in places},
        published={
            (row["topic"], row["client"]): max(1, round(row["rate_hz"] * window_s))
            for row in members
            if row["is_active"]
        },
        subscriptions={
            (row["topic"], row["client"]): row["subscribes"]
            for row in members
            if row["subscribes"] is not None
        },
        notified={(row["topic"], row["client"]) for row in members if row["is_notified"]},
    )


def weigh_plan(
    spark: SparkSession, version: Path, settings: DriftSettings, window_s: float
) -> dict[str, Any]:
    """Return a row with the columns `DRIFT` but the batch; scenario and plan are read anew.

    Raises
    ------
    NearcastError
        When scenario or plan cannot be read, or nobody publishes.
    """
    traffic = read_present_traffic(spark, version, window_s)
    scenario = read_scenario(settings.scenario)
    present = bring_up_to_date(scenario, traffic)
    force = read_plan_in_force(settings.plan, scenario)
    request = PlanRequest(
        _model(settings.plan),
        time_limit_s=settings.time_limit_s,
        bound_limit_s=settings.time_limit_s,
        start=force,
        migration_price_ms=settings.migration_price_ms,
    )
    weighed = weigh_new_plan(present, request, force, settings.least_saving)
    return {
        "now_s": traffic.until_s,
        "cost_before": weighed.cost_before,
        "cost_after": weighed.cost_after,
        "bound": weighed.bound,
        "migrations": weighed.migrations,
        "trigger": weighed.pays,
        "reason": weighed.reason,
        "failed": False,
        "moved_clients": present.moved_clients,
        "changed_members": present.changed_members,
        "unknown_clients": present.unknown_clients,
        "unknown_topics": present.unknown_topics,
    }


def _model(plan: Path) -> Model:
    if not (plan / PLAN_FILE).exists():  # written by hand
        return Model.RATIO
    said = read_json_object(plan / PLAN_FILE, Place(f"{plan.name}/{PLAN_FILE}", PlanError))
    try:
        return Model(said.get("model", Model.RATIO))
    except ValueError:
        raise PlanError(f"{plan / PLAN_FILE}: unknown model {said['model']!r}") from None
