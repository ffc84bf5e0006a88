"""The least that a notification to many takes: to seal and send what every receiver needs.

A server that did nothing else would take so much CPU time. It also looks up who is to be told,
numbers, repeats and takes receipts.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nearcast.experiments.latency.workload import PAYLOAD_BYTES
from nearcast.wire.group_datagram import GroupSealer
from nearcast.wire.noise import KEY_BYTES, CipherState

__all__ = ["group_bound_us", "unicast_bound_us"]

_BODY = bytes(PAYLOAD_BYTES)
_TIMES = 2_000
_ROUNDS = 3


def unicast_bound_us() -> float:
    """Return the CPU time of one receiver's datagram: sealed with its own key, and sent."""
    encrypt = CipherState(os.urandom(KEY_BYTES)).encrypt
    return _least_us(lambda number: encrypt(number.to_bytes(12, "big"), _BODY, b""))


def group_bound_us(receivers: int) -> float:
    """Return each receiver's share of one datagram to all: signed, sealed and sent once."""
    sealer = GroupSealer(Ed25519PrivateKey.generate(), os.urandom)
    return _least_us(lambda number: sealer.seal(number, _BODY)) / receivers


def _least_us(seal: Callable[[int], bytes]) -> float:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearer,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        hearer.bind(("127.0.0.1", 0))
        address = hearer.getsockname()  # nobody reads: what does not fit is dropped there
        rounds_s = []
        for _ in range(_ROUNDS):
            began_s = time.process_time()
            for number in range(_TIMES):
                sender.sendto(seal(number), address)
            rounds_s.append(time.process_time() - began_s)
    return min(rounds_s) * 1e6 / _TIMES
