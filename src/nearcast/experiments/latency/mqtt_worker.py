"""The processor beside an MQTT broker; run by the peers' interpreter with the port."""

from __future__ import annotations

import socket
import sys
from collections import defaultdict
from importlib import import_module
from typing import Any

from nearcast.experiments.latency.window import Window


def main(port: int) -> None:
    """Process messages until the process is ended."""
    mqtt: Any = import_module("paho.mqtt.client")
    windows: defaultdict[str, Window] = defaultdict(Window)
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="worker")

    def on_socket_open(_client: Any, _data: Any, own: socket.socket) -> None:
        # the library leaves Nagle's algorithm on: a notification would wait for the next one
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def on_connect(_client: Any, *_rest: Any) -> None:
        client.subscribe("in/+", qos=0)

    def on_subscribe(_client: Any, *_rest: Any) -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    def on_message(_client: Any, _data: Any, message: Any) -> None:
        topic = message.topic[3:]
        client.publish(f"out/{topic}", windows[topic].add(message.payload), qos=0)

    client.on_socket_open, client.on_connect = on_socket_open, on_connect
    client.on_subscribe, client.on_message = on_subscribe, on_message
    client.connect("127.0.0.1", port)
    client.loop_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
