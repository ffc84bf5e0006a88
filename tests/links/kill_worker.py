"""A writer to be killed: appends numbered records and says which ones are durable."""

from __future__ import annotations

import sys
from pathlib import Path

from nearcast.links.real_disk import RealDisk
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings

SETTINGS = SpoolSettings(segment_bytes=1 << 14)
SPOOL = 50


def record(number: int) -> bytes:
    return f"{number} ".encode() * (number % 40 + 1)


def main(folder: str) -> None:
    log = SpoolLog.open(RealDisk(Path(folder)), SETTINGS)
    topic = log.recovered.state.topics.get("t")
    number = topic.positions["writer"].sequence if topic is not None else 0
    while True:
        for _ in range(number % 5 + 1):
            number += 1
            position = Position("writer", 1, number)
            change = TopicChange("t", (record(number),), min(number, SPOOL), (position,))
            log.append(Group(number, (change,)))
        print(log.commit()[-1], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
