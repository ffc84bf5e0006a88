"""Client factors by Spark's alternating least squares, for relations of kind ``als``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import FloatArray, Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["als_factors"]


def als_factors(
    spark: SparkSession, scenario: Scenario, rank: int, iterations: int, seed: int
) -> FloatArray:
    """Return the factors [client, factor] of implicit feedback: a membership is a view of 1.

    Clients without a topic have zeros.
    """
    from pyspark.ml.recommendation import ALS

    members = scenario.members
    views = spark.createDataFrame(
        pa.table(
            {
                "client": members.client,
                "topic": members.topic,
                "view": np.ones(len(members), dtype=np.float32),
            }
        )
    )
    cores = spark.sparkContext.defaultParallelism
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
        .fit(views)
        .userFactors.toArrow()
    )
    factors = np.zeros((len(scenario.clients), rank))
    values = found.column("features").combine_chunks().flatten()
    factors[np.asarray(found.column("id"))] = np.asarray(values).reshape(-1, rank)
    return factors
