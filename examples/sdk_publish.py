"""A car that publishes its speed once a second and reports where it is.

python examples/sdk_publish.py car.json traffic/north --count 5
"""

from __future__ import annotations

import argparse
import asyncio

from nearcast.sdk import Client


async def main(credentials: str, topic: str, count: int, interval_s: float) -> None:
    async with Client.connect(credentials) as client:
        for number in range(count):
            x_km, y_km = number * 0.014, 0.0
            client.report(x_km, y_km, direction_deg=90.0, speed_mps=14.0)
            receipt = await client.publish(topic, {"speed_kmh": 50}, position=(x_km, y_km))
            await receipt
            print(f"publication {receipt.sequence} is safe")
            await asyncio.sleep(interval_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("credentials")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--interval-s", type=float, default=1.0)
    options = parser.parse_args()
    asyncio.run(main(options.credentials, options.topic, options.count, options.interval_s))
