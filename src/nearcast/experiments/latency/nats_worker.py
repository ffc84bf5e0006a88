"""The processor beside a NATS server; run by the peers' interpreter with the port."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from importlib import import_module
from typing import Any

from nearcast.experiments.latency.window import Window


async def main(port: int) -> None:
    """Process messages until the process is ended."""
    nats: Any = import_module("nats")
    windows: defaultdict[str, Window] = defaultdict(Window)
    connection = await nats.connect(f"nats://127.0.0.1:{port}")

    async def on_message(message: Any) -> None:
        topic = message.subject[3:]
        await connection.publish(f"out.{topic}", windows[topic].add(message.data))

    # no limit: a message that the client drops would count as lost by the broker
    await connection.subscribe("in.*", cb=on_message, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await connection.flush()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop: Any = import_module("uvloop")
    uvloop.run(main(int(sys.argv[1])))
