"""Two other ways to the strongest relations: a self-join in Spark, a sparse product in scipy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["join_with_itself", "multiply_sparse"]

Array = npt.NDArray[Any]
_CLIENTS_PER_BLOCK = 4_000


def join_with_itself(members: DataFrame, most: int, *, one_shuffle: bool) -> DataFrame:
    """Return (client_index, rank, other_index, score) from rows (topic, client).

    With `one_shuffle`, pairs are sent to the client's partition before they are counted, so that
    counting and ranking need no other exchange.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    mine = members.withColumnRenamed("client", "client_index")
    theirs = members.withColumnRenamed("client", "other_index")
    pairs = mine.join(theirs, "topic", how="inner").where("client_index != other_index")
    if one_shuffle:
        pairs = pairs.select("client_index", "other_index").repartition("client_index")
    counted = pairs.groupBy("client_index", "other_index").agg(F.count("*").alias("score"))
    strongest_first = Window.partitionBy("client_index").orderBy(F.desc("score"), "other_index")
    return (
        counted.withColumn("rank", F.row_number().over(strongest_first))
        .where(F.col("rank") <= most)
        .select("client_index", "rank", "other_index", F.col("score").cast("float"))
    )


def multiply_sparse(
    topic: Array, client: Array, topics: int, clients: int, most: int
) -> tuple[Array, Array, Array]:
    """Return (client, other, score) by the product of the membership matrix with itself."""
    from scipy.sparse import csr_array

    ones = np.ones(len(topic), dtype=np.int32)
    by_client = csr_array((ones, (client, topic)), shape=(clients, topics))
    by_topic = by_client.T.tocsr()
    parts = [
        _strongest(by_client[begin : begin + _CLIENTS_PER_BLOCK] @ by_topic, begin, most)
        for begin in range(0, clients, _CLIENTS_PER_BLOCK)
    ]
    mine, other, score = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return mine, other, score


def _strongest(product: Any, begin: int, most: int) -> tuple[Array, Array, Array]:
    """Return the strongest entries of each row of a block, its first row being client `begin`."""
    rows, clients = product.shape
    row = np.repeat(np.arange(rows, dtype=np.int64), np.diff(product.indptr))
    pair = row + begin != product.indices
    row, other, score = row[pair], product.indices[pair], product.data[pair]
    # One number orders by row, score and index: sorting it takes a third of a lexsort.
    top = int(score.max(initial=0))
    key = np.sort((row * (top + 1) + (top - score)) * clients + other)
    row, other = key // clients // (top + 1), key % clients
    score = top - key // clients % (top + 1)
    count = np.bincount(row, minlength=rows)
    kept = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) < most
    return row[kept] + begin, other[kept], score[kept]
