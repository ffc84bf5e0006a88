"""Spark's own errors, pages of Java, as one sentence that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from nearcast.errors import PipelineError

__all__ = ["clear_errors", "reason_of"]

_LARGEST_REASON = 300
_GONE = ("Answer from Java side is empty", "Error while sending", "Error while receiving")
"""What py4j says when there is no JVM any more: which, depends on when it went."""
_FULL = ("No space left on device", "Disk quota exceeded")
_CALLED = "An error occurred while calling "
"""What py4j writes before the error of Java."""
_JAVA_CLASS = re.compile(r"^: (?:[\w.$]+(?:Exception|Error): )?")
_CODE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+$")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?", re.MULTILINE)
_NO_CLASS = re.compile(r"ClassNotFoundException: (?:Class )?([\w.$]+)")
_INNER_CLASS = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_PYTHON_ERROR = re.compile(r"^[\w.]+(?:Error|Exception|Interrupt): ")


@contextmanager
def clear_errors(what: str) -> Iterator[None]:
    """Turn an error of Spark into a PipelineError that says `what` failed and why.

    Spark finds some mistakes when it plans and others when it runs: the block must hold both.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        reason = reason_of(str(error)).removeprefix(f"{what}: ")
        raise PipelineError(f"{what}: {reason}") from error
    except (ConnectionRefusedError, ConnectionResetError) as error:
        # of a call after the one that missed the JVM
        raise PipelineError(f"{what}: {reason_of(_GONE[0])}") from error


def reason_of(text: str) -> str:
    """Return the line of an error text that says what went wrong.

    That is the last line of a Python worker's traceback, or else the innermost cause in Java
    together with the first line, which has the file.
    """
    if "OutOfMemoryError" in text:
        return "Spark ran out of memory; give it more with --driver-memory"
    for sign in _FULL:
        if sign in text:
            return f"the disk is full, of a checkpoint, an output or Spark's own files: {sign}"
    # Where Java is there to answer, py4j's own line is followed by its error.
    is_unanswered = text.startswith(_CALLED) and len(text.split()) == len(_CALLED.split()) + 1
    if is_unanswered or any(sign in text for sign in _GONE):
        return "Spark's JVM has ended; was it killed, or short of memory (--driver-memory)?"
    if missing := _NO_CLASS.search(text):
        return (
            f"Spark has no {missing[1]}; give what has it with "
            "--conf spark.jars.packages=GROUP:NAME:VERSION"
        )
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if "Traceback (most recent call last)" in text:
        python = [line for line in lines if _PYTHON_ERROR.match(line)]
        if python and _CALLED in python[-1]:  # Python had called Java, whose error follows
            lines = lines[lines.index(python[-1]) :]
            lines[0] = _CALLED
        elif python:
            return _shorten(_PYTHON_ERROR.sub("", python[-1]))
    if len(lines) > 1 and lines[0].startswith(_CALLED):
        lines = [_JAVA_CLASS.sub("", lines[1]), *lines[2:]]
    first = next((line for line in lines if line.startswith("[")), lines[0] if lines else "unknown")
    first = _CODE.sub("", _CODE.sub("", first.strip())).rstrip(".")
    causes = [_CAUSE.sub("", line) for line in lines if line.startswith("Caused by: ")]
    inner = _CODE.sub("", causes[-1].strip()) if causes else ""
    return _shorten(first if not inner or inner in first else f"{first} ({inner})")


def _shorten(text: str) -> str:
    text = _INNER_CLASS.sub("", " ".join(text.split()))
    return text if len(text) <= _LARGEST_REASON else f"{text[:_LARGEST_REASON]}..."
