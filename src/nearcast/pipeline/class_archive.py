"""An archive of Spark's Java classes, which Java maps instead of reading and checking each anew.

`make_archive` writes it into the virtual environment, and embedded sessions use it when it is
there. It fits one build of Java and one Spark; after a change of either it is simply not there.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from nearcast.pipeline.java import java_program, java_says

__all__ = ["QUIET", "archive_file", "use_archive"]

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit is no news to the user, nor are classes that cannot be kept."""


def archive_file() -> Path:
    """Return where the archive of this Java and this Spark is, or would be."""
    import pyspark

    spark = (pyspark.__version__, pyspark.__file__, os.environ.get("SPARK_HOME", ""))
    key = "\n".join([java_says(java_program()), *spark])
    name = f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"
    return Path(sys.prefix, "share", "nearcast", name)


def use_archive() -> str | None:
    """Return the options by which Java uses the archive; None: there is none.

    Java goes on without an archive that it cannot use.
    """
    file = archive_file()
    return f'"-XX:SharedArchiveFile={file}" -Xshare:auto {QUIET}' if file.is_file() else None
