"""Stages 1 and 2 for social graphs: from a list of edges to topics of a follower and its followees.

===========  ==========================================================
table        columns
===========  ==========================================================
edges        row (order of the file), follower, followee
quarantine   row, file, reason, text (the line)
===========  ==========================================================
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from nearcast.domain.imports.follows import (
    FollowsParams,
    fail_without_topics,
    follows_scenario,
    graph_of,
)
from nearcast.domain.scenario import Scenario
from nearcast.errors import ScenarioError
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.ingest import split_rows
from nearcast.pipeline.stages.log_files import find_files
from nearcast.pipeline.stages.raw_rows import read_lines
from nearcast.pipeline.stages.scenario import save_scenario
from nearcast.pipeline.stages.text_files import check_text_file

if TYPE_CHECKING:
    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["ingest_follows", "members_from_follows"]

_SEPARATORS = "\t,;\r\v\f"


def ingest_follows(workspace: Workspace, path: Path, record: StageRecord) -> None:
    """Read a list of follower and followee, plain or gzip, and write the tables above.

    Ids are separated by blanks or commas; further columns, empty lines and ``#`` comments are
    ignored. Self-loops and repeats are edges here; the next step leaves them out.

    Raises
    ------
    ScenarioError
        When the file is missing, empty or holds no edge.
    PipelineError
        When Spark fails to read it.
    """
    files = find_files([path])
    for file in files:
        check_text_file(file)
    with clear_errors(str(path)):
        blanks = sf.trim(sf.translate("text", _SEPARATORS, " " * len(_SEPARATORS)))
        cells = sf.split(blanks, " +", 3)
        lines = read_lines(workspace.spark, files).where(~blanks.startswith("#"))
        reason = sf.when(~sf.is_valid_utf8("text"), "not UTF-8").when(
            sf.size("cells") < 2, "one column, not follower and followee"
        )
        rows = lines.withColumn("cells", cells).select(
            "row",
            "file",
            "text",
            sf.get("cells", sf.lit(0)).alias("follower"),
            sf.get("cells", sf.lit(1)).alias("followee"),
            reason.alias("reason"),
        )
        split_rows(workspace, rows, "edges", ["row", "follower", "followee"], record)
    if not record.rows_out:
        raise ScenarioError("holds no edges, only comments or lines of one column", file=str(path))


def members_from_follows(
    workspace: Workspace,
    parameters: FollowsParams,
    seed: int,
    record: StageRecord,
    file: str = "follows",
) -> Scenario:
    """Return what `import_follows` makes of the edges that `ingest_follows` wrote.

    Spark leaves out self-loops, repeats and followers of other sizes; the rest, which are the
    topics that the scenario may have, come to the driver, where clients are placed by the seed.
    `file` names the scenario and the errors.
    """
    with clear_errors(file):
        edges = workspace.load("edges")
        record.rows_in = edges.count()
        differing = edges.where("follower <> followee")
        loops = record.rows_in - differing.count()
        once = differing.groupBy("follower", "followee").agg(sf.min("row").alias("row"))
        followers = once.groupBy("follower").agg((sf.count(sf.lit(1)) + 1).alias("members"))
        fits = sf.col("members").between(parameters.min_members, parameters.max_members)
        count, distinct, smallest, largest, fitting = followers.agg(  # type: ignore[misc]
            sf.count(sf.lit(1)),
            sf.sum("members") - sf.count(sf.lit(1)),
            sf.min("members"),
            sf.max("members"),
            sf.count_if(fits),
        ).first()
        if not fitting:
            fail_without_topics((smallest, largest) if count else None, parameters, file)
        # Followers are numbered by their first row, and each one's followees follow theirs.
        kept = once.join(followers.where(fits), "follower", "left_semi").toArrow().sort_by("row")
    names = (kept.column(name).combine_chunks() for name in ("follower", "followee"))
    counts = {
        "rows": record.rows_in,
        "self_loops": loops,
        "duplicates": record.rows_in - loops - distinct,
        "edges": distinct,
        "followers": count,
    }
    graph = replace(graph_of(*names), counts=counts)
    scenario = follows_scenario(graph, parameters, seed, file)
    save_scenario(workspace, scenario, record)
    return scenario
