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
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf

from nearcast.domain.imports.follows import (
    FollowsParams,
    fail_without_topics,
    follows_scenario,
    graph_of_codes,
)
from nearcast.domain.scenario import Scenario
from nearcast.domain.texts import shortened
from nearcast.errors import ScenarioError
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.driver_tables import collect, sorted_rows
from nearcast.pipeline.stages.ingest import split_rows
from nearcast.pipeline.stages.log_files import LogPath, find_files
from nearcast.pipeline.stages.names import number_names
from nearcast.pipeline.stages.raw_rows import read_lines
from nearcast.pipeline.stages.scenario import save_scenario
from nearcast.pipeline.stages.text_files import check_text_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["ingest_follows", "members_from_follows"]

_ENDS = ("follower", "followee")
_SEPARATORS = "\t,;\r\v\f"


def ingest_follows(workspace: Workspace, path: LogPath, record: StageRecord) -> None:
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


def _numbered(edges: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the names of all nodes in order, and the edges with numbers for names.

    Followers have the first numbers, as `graph_of_codes` wants it.
    """
    nodes = [
        edges.select(sf.col(end).alias("name"), sf.lit(number).alias("end"), "row")
        for number, end in enumerate(_ENDS)
    ]
    first = (
        nodes[0].union(nodes[1]).groupBy("name").agg(sf.min(sf.struct("end", "row")).alias("at"))
    )
    names = number_names(first, "code", "at").select("code", "name")
    for end in _ENDS:
        code = names.select(sf.col("name").alias(end), sf.col("code").alias(f"{end}_code"))
        edges = edges.join(code, end)
    return names.orderBy("code"), edges.select(
        "row", *(sf.col(f"{end}_code").alias(end) for end in _ENDS)
    )


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
        fitting_edges = once.join(followers.where(fits), "follower", "left_semi")
        names, coded = _numbered(fitting_edges)
        kept = sorted_rows(collect(coded, "edges"), "row")
        texts = collect(names, "names of clients").combine_chunks().column("name").chunk(0)
    edges_of = (kept.column(end).to_numpy().astype(np.int64) for end in _ENDS)
    counts = {
        "rows": record.rows_in,
        "self_loops": loops,
        "duplicates": record.rows_in - loops - distinct,
        "edges": distinct,
        "followers": count,
    }
    graph = replace(graph_of_codes(shortened(texts), *edges_of), counts=counts)
    scenario = follows_scenario(graph, parameters, seed, file)
    save_scenario(workspace, scenario, record)
    return scenario
