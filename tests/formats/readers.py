"""Reads each file of `tests/fixtures/formats` as nearcast does, and returns what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from nearcast.broker.notices import decode_entry
from nearcast.links.real_disk import RealDisk
from nearcast.overlay.messages import Codec
from nearcast.routing.keys import Key
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.trust_files import read_credential
from nearcast.sdk.credentials import load_credentials
from nearcast.server.mesh_messages import decode_mesh
from nearcast.server.peer_channel import decode_frame
from nearcast.server.signed_orders import read_orders
from nearcast.site.credential_register import CredentialRegister
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.authority import SmallAuthority
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.actions import Home
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import decode
from nearcast.wire.framing import (
    HEADER_BYTES,
    MAC_BYTES,
    PROLOGUE,
    InitKeys,
    echoed_part,
    read_header,
)
from nearcast.wire.handshake_gate import HandshakeGate
from nearcast.wire.messages import Init
from nearcast.wire.noise import public_key
from nearcast.wire.settings import WireSettings
from nearcast.wire.stream_channel import StreamChannel

__all__ = ["AUTHORITY", "CLIENT_KEY", "EDGE_KEY", "FIXTURES", "NOW_S", "READERS", "read"]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "formats"
AUTHORITY = SmallAuthority(b"A" * 32)
EDGE_KEY, CLIENT_KEY = b"e" * 32, b"c" * 32
NOW_S = 1_800_000_000.0
assert PROLOGUE == b"nearcast wire 1"


def read(name: str, folder: Path, scratch: Path) -> Any:
    """Return what a file of a folder says, as plain values; `scratch` is for what is written."""
    return json.loads(msgspec.json.encode(READERS[name](folder / name, scratch)))


def _spool(path: Path, scratch: Path) -> Any:
    copied = scratch / "spool"
    shutil.copytree(path, copied)
    disk = RealDisk(copied)
    try:
        recovered = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 12)).recovered
    finally:
        disk.close()
    return {
        "damages": recovered.damages,
        "cut": recovered.cut,
        "topics": {
            name: {
                "entries": [decode_entry(name, one) for one in topic.records],
                "positions": list(topic.positions.values()),
                "state": topic.state,
                "end": topic.end,
                "aside": topic.aside,
            }
            for name, topic in recovered.state.topics.items()
        },
    }


def _trust(folder: Path) -> SiteTrust:
    trust = AUTHORITY.trust()
    trust.add_signer(read_credential(folder / "manager.hex"), NOW_S)
    return trust


def _orders(path: Path, _scratch: Path) -> Any:
    return read_orders(path.read_bytes(), _trust(path.parent), "e1")


def _server(path: Path, _scratch: Path) -> Any:
    return AUTHORITY.trust().server(read_credential(path), NOW_S)


def _client(path: Path, _scratch: Path) -> Any:
    file = load_credentials(path)
    return [file, AUTHORITY.trust().client(file.credential, file.public_key, NOW_S)]


def _revocations(path: Path, _scratch: Path) -> Any:
    trust = AUTHORITY.trust()
    trust.revoke(path.read_bytes())
    return trust.revocations


def _manager(path: Path, scratch: Path) -> Any:
    store = ManagerStore(Path(shutil.copy(path, scratch)))
    try:
        return [store.load(), list(store.clients.clients_of("e1")), store.clients.enrolled("car-7")]
    finally:
        store.close()


def _register(path: Path, scratch: Path) -> Any:
    found = CredentialRegister(Path(shutil.copy(path, scratch))).all()
    return [found, found[0].server(), found[1].client()]


def _wire_messages(path: Path, _scratch: Path) -> Any:
    frames = json.loads(path.read_text())
    return {
        name: [(type(message).__name__, message) for message, _ in decode(bytes.fromhex(frame))]
        for name, frame in frames.items()
    }


def _mesh_messages(path: Path, _scratch: Path) -> Any:
    messages = json.loads(path.read_text())
    found = {name: decode_mesh(bytes.fromhex(one)) for name, one in messages.items()}
    return {name: (type(one).__name__, one) for name, one in found.items()}


def _overlay_messages(path: Path, _scratch: Path) -> Any:
    codec = Codec(Key)
    found = {name: bytes.fromhex(one) for name, one in json.loads(path.read_text()).items()}
    return {name: codec.decode(one) for name, one in found.items()}


def _datagrams(path: Path, _scratch: Path) -> Any:
    """Take part in a session of which both sides' keys are known, with what the file holds."""
    sent = {name: bytes.fromhex(one) for name, one in json.loads(path.read_text()).items()}
    settings, server_key = WireSettings(), public_key(EDGE_KEY)
    gate = HandshakeGate(EDGE_KEY, AUTHORITY.trust().client, Random(2).randbytes, settings)
    admission = gate.admit(sent["init"], ("c", 1), NOW_S)
    server, _, _ = gate.welcome(admission, 5, NOW_S)
    home = Home(("e1", 1), server_key)
    handshake = ClientHandshake(CLIENT_KEY, home, Random(1).randbytes, settings, NOW_S)
    handshake.write_init(Init(epoch=3, credential=admission.init.credential), NOW_S)
    client, acknowledge = handshake.read_acknowledge(sent["acknowledge"])
    mac1 = sent["init"][-2 * MAC_BYTES : -MAC_BYTES]
    return {
        "headers": {name: read_header(one) for name, one in sent.items()},
        "init": admission.init,
        "credential": admission.credential,
        "acknowledge": acknowledge,
        "cookie": InitKeys(server_key).read_cookie(sent["cookie"], mac1),
        "to the server": decode(server.open(sent["sealed by the client"])),
        "to the client": decode(client.open(sent["sealed by the server"])),
        "unknown": echoed_part(sent["unknown"]) == echoed_part(sent["sealed by the client"]),
        "question": InitKeys(server_key).read_question(sent["question"]),
        "opinion": decode(sent["opinion"][HEADER_BYTES:]),
    }


def _link(path: Path, _scratch: Path) -> Any:
    """Answer a server that dials, with a known key on either side."""
    sent = bytes.fromhex(path.read_text())
    answering = StreamChannel.answer(
        static=EDGE_KEY, ephemeral=b"2" * 32, accepts=lambda _key, _payload: True
    )
    frames = [decode_frame(one) for one in answering.receive(sent, NOW_S)]
    messages = [decode_mesh(one) for frame in frames if frame for one in frame.messages]
    return [answering.peer_key, answering.peer_payload, frames, messages]


READERS: dict[str, Callable[[Path, Path], Any]] = {
    "spool": _spool,
    "orders.msgpack": _orders,
    "server.hex": _server,
    "manager.hex": _server,
    "client.json": _client,
    "revocations.msgpack": _revocations,
    "manager.db": _manager,
    "register.db": _register,
    "wire-messages.json": _wire_messages,
    "mesh-messages.json": _mesh_messages,
    "overlay-messages.json": _overlay_messages,
    "datagrams.json": _datagrams,
    "link.hex": _link,
}
"""By the name of the file, or folder."""
