"""The processor as a zenoh peer that listens; run by the peers' interpreter with the port."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from importlib import import_module
from typing import Any

from nearcast.experiments.latency.window import Window
from nearcast.experiments.latency.workload import TOPICS, topic_name
from nearcast.experiments.latency.zenoh_settings import zenoh_config


def main(port: int) -> None:
    """Process messages until the process is ended."""
    zenoh: Any = import_module("zenoh")
    windows: defaultdict[str, Window] = defaultdict(Window)
    session = zenoh.open(zenoh_config(zenoh, listen=f"tcp/127.0.0.1:{port}"))
    publishers = {
        f"in/{topic}": session.declare_publisher(
            f"out/{topic}",
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )
        for topic in map(topic_name, range(TOPICS))
    }

    def on_sample(sample: Any) -> None:
        key = str(sample.key_expr)
        publishers[key].put(windows[key].add(sample.payload.to_bytes()))

    subscriber = session.declare_subscriber("in/*", on_sample)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()
    subscriber.undeclare()


if __name__ == "__main__":
    main(int(sys.argv[1]))
