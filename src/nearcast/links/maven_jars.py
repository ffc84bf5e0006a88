"""Jars from Maven Central: Kafka, HDFS and S3 for this machine, Spark's ways to Kafka and S3.

``python -m nearcast.links.maven_jars kafka`` fetches Kafka and the connector with ``mvn`` into the
folder ``kafka`` of the Python environment, once; ``hdfs`` and ``s3`` fetch these. ``make
kafka-jars``, ``make hdfs-jars`` and ``make s3-jars`` call it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from nearcast.errors import ConfigError

__all__ = ["BROKER", "CONNECTOR", "HDFS", "S3A", "S3_SERVER", "JarSet", "fetch", "find_jars"]

_FETCH_WITHIN_S = 600.0


class _Jar(NamedTuple):
    group: str
    name: str
    version: str
    alone: bool = False
    """Whether what it depends on is left out, because pyspark or the jar itself brings it."""
    classifier: str = ""
    """Which of several jars of the name."""


class JarSet(NamedTuple):
    """Jars that belong together, in a folder of their own."""

    folder: str
    jars: tuple[_Jar, ...]
    what: str = "Apache Kafka"
    verb: str = "make kafka-jars"
    """Fetches them."""


BROKER = JarSet(
    "broker",
    (_Jar("org.apache.kafka", "kafka_2.13", "4.3.1"), _Jar("org.slf4j", "slf4j-simple", "1.7.36")),
)
"""A Kafka broker, KRaft."""
CONNECTOR = JarSet(
    "connector",
    (
        _Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", alone=True),
        # it has to do with delegation tokens only, and this is the newest that every registry has
        _Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", alone=True),
        _Jar("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
        _Jar("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
)
"""What Spark reads and writes Kafka with; made for the pyspark that nearcast wants."""
HDFS = JarSet(
    "hdfs",
    (
        _Jar("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0", alone=True),
        # its folders are made by what its own tests are made with
        _Jar("org.junit.jupiter", "junit-jupiter-api", "5.10.2"),
    ),
    "HDFS",
    "make hdfs-jars",
)
"""A name node and a data node for tests, beside the Hadoop that pyspark brings."""
S3A = JarSet(
    "s3a",
    (
        _Jar("org.apache.hadoop", "hadoop-aws", "3.5.0", alone=True),
        # what it needs of Amazon's software: all of it, which it asks for, are 600 MB
        _Jar("software.amazon.awssdk", "s3", "2.35.4"),
        _Jar("software.amazon.awssdk", "s3-transfer-manager", "2.35.4"),
        _Jar("software.amazon.awssdk", "sts", "2.35.4"),
        _Jar("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", True),
    ),
    "Hadoop's way to S3",
    "make s3-jars",
)
S3_SERVER = JarSet(
    "s3-server",
    (_Jar("org.gaul", "s3proxy", "2.6.0", alone=True, classifier="jar-with-dependencies"),),
    "an S3 server",
    "make s3-jars",
)
"""S3Proxy, for tests."""
_SETS = {"kafka": (BROKER, CONNECTOR), "hdfs": (HDFS,), "s3": (S3A, S3_SERVER)}


def find_jars(wanted: JarSet, root: Path | None = None) -> list[Path]:
    """Return the jars of a set, with absolute paths.

    Raises
    ------
    ConfigError
        When they were not fetched.
    """
    folder = (root or _root()) / wanted.folder
    found = sorted(folder.glob("*.jar"))
    if not found:
        raise ConfigError(
            f"{folder}: no jars of {wanted.what} there; `{wanted.verb}` fetches them from Maven "
            "Central (it needs mvn and Java 17)"
        )
    return [path.resolve() for path in found]


def fetch(wanted: JarSet, root: Path | None = None) -> None:
    """Fetch a set, whole or not at all; nothing to do when it is there.

    Raises
    ------
    ConfigError
        When there is no Maven or it fails; with the end of what it said.
    """
    root = root or _root()
    folder = root / wanted.folder
    if any(folder.glob("*.jar")):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigError(
            f"mvn (Apache Maven) is not installed; it fetches the jars of {wanted.what}"
        )
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as scratch:
        pom, libs = Path(scratch, "pom.xml"), Path(scratch, "libs")
        pom.write_text(_pom(wanted))
        command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
        try:
            said = subprocess.run(
                command, capture_output=True, text=True, timeout=_FETCH_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"mvn did not end within {_FETCH_WITHIN_S:g} s") from None
        if said.returncode or not any(libs.glob("*.jar")):
            tail = "\n".join((said.stdout + said.stderr).strip().splitlines()[-5:])
            raise ConfigError(
                f"mvn could not fetch the jars of {wanted.what} ({wanted.folder}):\n{tail}"
            )
        libs.rename(folder)


def _root() -> Path:
    return Path(sys.prefix) / "kafka"


def _pom(wanted: JarSet) -> str:
    nothing = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies = "".join(
        f"<dependency><groupId>{escape(one.group)}</groupId>"
        f"<artifactId>{escape(one.name)}</artifactId><version>{escape(one.version)}</version>"
        + (f"<classifier>{one.classifier}</classifier>" if one.classifier else "")
        + (f"<exclusions>{nothing}</exclusions>" if one.alone else "")
        + "</dependency>"
        for one in wanted.jars
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>nearcast</groupId><artifactId>{wanted.folder}</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


if __name__ == "__main__":
    try:
        for one in _SETS[sys.argv[1]]:
            fetch(one)
    except ConfigError as error:
        sys.exit(f"error: {error}")
