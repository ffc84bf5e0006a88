"""A sign that shows what happens on its road, without asyncio.

python examples/sdk_subscribe.py sign.json traffic/north --count 5
"""

from __future__ import annotations

import argparse
from itertools import islice

from nearcast.sdk import SyncClient


def main(credentials: str, topic: str, count: int) -> None:
    with SyncClient.connect(credentials) as client:
        client.subscribe(topic)
        print(f"listening to {topic}", flush=True)
        for notification in islice(client.notifications(), count):
            print(f"{notification.publisher}: {notification.text} ({notification.total_ms:.1f} ms)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("credentials")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    main(options.credentials, options.topic, options.count)
