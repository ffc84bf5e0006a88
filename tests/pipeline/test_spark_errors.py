from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from nearcast.errors import PipelineError
from nearcast.pipeline.spark_errors import clear_errors, reason_of


def test_what_fails_in_the_plan_a_worker_or_java_is_one_sentence(spark: SparkSession) -> None:
    unresolved = r"^a: A column.*`gone` cannot be resolved[^\n]*$"
    with pytest.raises(PipelineError, match=unresolved), clear_errors("a"):
        spark.range(1).select("gone")

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("the reason")

    with pytest.raises(PipelineError, match=r"^b: the reason$"), clear_errors("b"):
        spark.range(1).mapInArrow(fail, "id long").collect()
    with pytest.raises(PipelineError, match=r"^c: [^\n]*'x'[^\n]*$"), clear_errors("c"):
        spark.sql("select cast('x' as int)").collect()
    with pytest.raises(KeyError), clear_errors("d"):
        raise KeyError("ours")
    with pytest.raises(PipelineError, match="JVM has ended"), clear_errors("e"):
        raise ConnectionResetError
    with pytest.raises(BrokenPipeError), clear_errors("f"):  # whoever read our output went away
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "Spark ran out of memory; give it"),
        ("[A.B] No luck. SQLSTATE: 42\n== SQL ==", "No luck"),
        ("[A] No luck\n\tat x\nCaused by: java.io.IOException: disk", "No luck (disk)"),
        ("py4j: Answer from Java side is empty\n", "Spark's JVM has ended"),
        ("Error while sending", "Spark's JVM has ended"),
        ("Error while receiving", "Spark's JVM has ended"),
        ("Error while sending or receiving", "Spark's JVM has ended"),
        ("An error occurred while calling o40.sc", "Spark's JVM has ended"),
        ("An error occurred while calling o1.x.\n: a.b.IOException: No way\n\tat x", "No way"),
        (
            "x\n: RuntimeException: java.lang.ClassNotFoundException: Class a.s3a.Files not found",
            "Spark has no a.s3a.Files; give what has it with --conf spark.jars.packages=",
        ),
        (
            "[A.B] Failed\nTraceback (most recent call last):\n  File x\npy4j.protocol.Py4JJavaError: "
            "An error occurred while calling o224.getResult.\n: a.b.SparkException: [C.D] Aborted\n"
            "\tat x\nCaused by: java.io.IOException: gone\n\tat y",
            "Aborted (gone)",
        ),
        (
            "An error occurred while calling o1.x.\n: java.nio.file.AccessDeniedException: s3a://b/c: "
            "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided\n\tat x",
            "s3a://b/c: No AWS Credentials provided",
        ),
        ("x\nCaused by: java.io.IOException: No space left on device\n", "the disk is full"),
        ("", "unknown"),
        ("x" * 999, "x" * 300 + "..."),
    ],
)
def test_the_reason_is_the_line_that_says_it(text: str, reason: str) -> None:
    assert reason_of(text).startswith(reason)
