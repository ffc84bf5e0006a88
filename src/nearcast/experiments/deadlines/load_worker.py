"""The load process of ``bench deadlines``: consumer messages at a rate, whatever becomes of them."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from nearcast.experiments.deadlines.work import LOAD
from nearcast.experiments.latency.process_usage import cpu_seconds
from nearcast.sdk.client import Client

__all__ = ["send"]

_TICK_S = 0.005
_PAYLOAD = LOAD.ljust(200, b".")


async def send(asked: dict[str, Any]) -> dict[str, float]:
    """Publish at the rate that is asked for; return how much that was, and the server's CPU time."""
    loop = asyncio.get_running_loop()
    clients = [Client.connect(one) for one in asked["publishers"]]
    for client in clients:
        await client.__aenter__()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server, cpu_s = asked["server"], _cpu_s(asked["server"])
    began, sent = loop.time(), 0
    while (passed_s := loop.time() - began) < asked["seconds"]:
        due = int(passed_s * asked["rate_hz"])
        while sent < due:
            clients[sent % len(clients)].publish_now(
                f"consumer/{sent % len(clients)}",
                _PAYLOAD,
                durable=False,
                message_class=asked["message_class"],
            )
            sent += 1
        await asyncio.sleep(_TICK_S)
    took_s = loop.time() - began
    found = {"load_hz": sent / took_s, "server_cpu_share": (_cpu_s(server) - cpu_s) / took_s}
    for client in clients:
        await client.close(timeout_s=0.0)
    return found


def _cpu_s(process: int) -> float:
    """Return the CPU time of the server's loop; its helpers are other processes."""
    return cpu_seconds({"loop": process})["loop"]


def main() -> None:
    """Send what stdin asks for."""
    found = asyncio.run(send(json.loads(sys.stdin.readline())))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
