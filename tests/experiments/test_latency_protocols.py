"""The readers of the load process against bytes as brokers send them."""

from __future__ import annotations

import pytest

from nearcast.experiments.latency.mqtt_protocol import (
    MqttReader,
    connect_packet,
    publish_packet,
    subscribe_packet,
)
from nearcast.experiments.latency.nats_protocol import NatsReader
from nearcast.experiments.latency.workload import HEAD, PAYLOAD_BYTES, make_payload

FIRST, SECOND = make_payload(1_000, 7), make_payload(2_000, 8)
HEADS = [HEAD.pack(1_000, 7), HEAD.pack(2_000, 8)]

NATS = (
    b'INFO {"server_id":"x","max_payload":1048576}\r\n'
    b"MSG out.t3 1 220\r\n" + FIRST + b"\r\n"
    b"PING\r\n"
    b"MSG out.t4 1 220\r\n" + SECOND + b"\r\n"
)
MQTT = (
    b"\x20\x02\x00\x00"  # CONNACK
    b"\x90\x03\x00\x01\x00"  # SUBACK
    b"\x30\xe4\x01\x00\x06out/t3" + FIRST + b"\xd0\x00"  # PUBLISH; PINGRESP
    b"\x32\xe6\x01\x00\x06out/t4\x00\x05" + SECOND  # PUBLISH at QoS 1, with a packet id
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 239, len(NATS)])
def test_nats_messages_are_found_however_they_are_cut(size: int) -> None:
    reader, heads = NatsReader(), list[bytes]()
    found = [reader.feed(NATS[at : at + size], heads) for at in range(0, len(NATS), size)]
    assert heads == HEADS
    assert sum(found) == 2
    assert reader.pings == 1


def test_a_payload_may_look_like_the_protocol() -> None:
    reader, heads = NatsReader(), list[bytes]()
    payload = b"\r\nMSG a 1 9\r\nPING\r\n-ERR"
    reader.feed(b"MSG out.t1 1 %d\r\n%s\r\n" % (len(payload), payload), heads)
    assert heads == [payload[: HEAD.size]]
    assert reader.pings == 0


def test_an_error_of_a_nats_server_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match="Slow Consumer"):
        NatsReader().feed(b"-ERR 'Slow Consumer'\r\n", [])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 239, len(MQTT)])
def test_mqtt_publications_are_found_however_they_are_cut(size: int) -> None:
    reader, heads = MqttReader(), list[bytes]()
    found = [reader.feed(MQTT[at : at + size], heads) for at in range(0, len(MQTT), size)]
    assert heads == HEADS
    assert sum(found) == 2


def test_mqtt_packets_are_those_of_the_standard() -> None:
    assert connect_packet("a") == b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a"
    assert subscribe_packet("out/+") == b"\x82\x0a\x00\x01\x00\x05out/+\x00"
    assert publish_packet("t", b"xy") == b"\x30\x05\x00\x01txy"
    assert publish_packet("out/t3", FIRST)[:3] == b"\x30\xe4\x01"
    assert len(publish_packet("out/t3", FIRST)) == 3 + 2 + 6 + PAYLOAD_BYTES
