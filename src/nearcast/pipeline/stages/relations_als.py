"""Client factors by Spark's alternating least squares, for relations of kind ``als``."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.scenario import FloatArray, Scenario
from nearcast.pipeline.stages.members_table import MEMBERS_TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.pipeline.workspace import Workspace

__all__ = ["als_factors"]

_VIEWS_TABLE = "_views"
_ROWS_OF_A_BATCH = 1 << 20


def als_factors(
    workspace: Workspace, scenario: Scenario, rank: int, iterations: int, seed: int
) -> FloatArray:
    """Return the factors [client, factor] of implicit feedback: a membership is a view of 1.

    Clients without a topic have zeros.
    """
    from pyspark.ml.recommendation import ALS

    cores = workspace.spark.sparkContext.defaultParallelism
    found = (
        ALS(
            rank=rank,
            maxIter=iterations,
            implicitPrefs=True,
            userCol="client",
            itemCol="topic",
            ratingCol="view",
            seed=seed,
            # Spark's own 10 blocks take half as long again on two cores.
            numUserBlocks=cores,
            numItemBlocks=cores,
        )
        .fit(_views(workspace, scenario))
        .userFactors.toArrow()
    )
    shutil.rmtree(workspace.path(_VIEWS_TABLE), ignore_errors=True)
    factors = np.zeros((len(scenario.clients), rank))
    values = found.column("features").combine_chunks().flatten()
    factors[np.asarray(found.column("id"))] = np.asarray(values).reshape(-1, rank)
    return factors


def _views(workspace: Workspace, scenario: Scenario) -> DataFrame:
    """Return the memberships as Spark reads them, without a copy of all of them in the driver."""
    members = scenario.members
    table, names = MEMBERS_TABLE, ["client_index", "topic_index"]
    if workspace.count(MEMBERS_TABLE) != len(members):
        # A scenario of its own, which no stage has written as a table.
        schema = pa.schema([(name, pa.int32()) for name in names])
        cuts = range(0, len(members), _ROWS_OF_A_BATCH)
        batches = (
            pa.RecordBatch.from_arrays(
                [
                    pa.array(part[begin : begin + _ROWS_OF_A_BATCH])
                    for part in (members.client, members.topic)
                ],
                schema=schema,
            )
            for begin in cuts
        )
        table = _VIEWS_TABLE
        workspace.save_batches(table, schema, batches)
    client, topic = (
        sf.col(name).alias(ours) for name, ours in zip(names, ("client", "topic"), strict=True)
    )
    return workspace.load(table).select(client, topic, sf.lit(1.0).cast("float").alias("view"))
