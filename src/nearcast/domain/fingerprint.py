"""A short name for the content of a scenario, the same whatever files it came from."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.domain.json_files import plain_json
from nearcast.domain.scenario import Scenario
from nearcast.domain.settings_file import settings_to_json
from nearcast.domain.texts import as_texts, lengthened

__all__ = ["scenario_fingerprint"]

_LENGTH = 16
_LARGEST_INT32 = 2**31 - 1
_ROWS_OF_A_PIECE = 1 << 20


def scenario_fingerprint(scenario: Scenario) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all that a scenario says but its name.

    Ids count as text, so that 7 in a CSV file and "7" in a Parquet file are the same.
    """
    digest = hashlib.sha256()
    settings = plain_json(settings_to_json(scenario.settings))
    del settings["name"]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    servers, clients = scenario.servers, scenario.clients
    topics, members = scenario.topics, scenario.members
    for ids in (servers.ids, servers.net_id, clients.ids, topics.ids):
        _add_ids(digest, ids)
    for numbers in (
        *(servers.x_km, servers.y_km, servers.storage, servers.compute, servers.client_limit),
        *(clients.x_km, clients.y_km),
        *(topics.spool, topics.permissible_ms, topics.process_ms),
        *(members.topic, members.client, members.publishes, members.subscribes, members.rate_hz),
        *(scenario.client_server_ms, scenario.server_server_ms),
    ):
        _add_numbers(digest, numbers)
    return digest.hexdigest()[:_LENGTH]


def _add_ids(digest: hashlib._Hash, ids: pa.Array) -> None:
    # A new array, which starts at offset 0 of its buffers.
    text = pa.concat_arrays([lengthened(as_texts(ids)), pa.array([""], pa.large_string())])
    ends = np.frombuffer(text.buffers()[1], dtype=np.int64, count=len(text) + 1)
    # As short as they can be: the offsets of an array are no part of what it says.
    _add_numbers(digest, ends.astype(np.int32) if ends[-1] <= _LARGEST_INT32 else ends)
    digest.update(text.buffers()[2][: int(ends[-1])])


def _add_numbers(digest: hashlib._Hash, numbers: npt.NDArray[Any] | None) -> None:
    if numbers is None:
        digest.update(b"none")
        return
    digest.update(f"{numbers.dtype.name}{numbers.shape}".encode())
    # Piece by piece: a copy of all numbers may be large.
    for begin in range(0, len(numbers), _ROWS_OF_A_PIECE):
        piece = numbers[begin : begin + _ROWS_OF_A_PIECE]
        if piece.dtype.kind == "f":
            piece = piece + 0.0  # -0.0 becomes 0.0
        digest.update(np.ascontiguousarray(piece).data)
