"""Writes files of this version's formats: ``python tests/formats/make_fixtures.py FOLDER``.

Run it when a format has changed and no version with the one before was released; afterwards keep
the old files, and give the new ones a folder of their own. The same files come out each time, but
for SQLite's.
"""

from __future__ import annotations

import json
import sys
import tempfile
import typing
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from formats.readers import AUTHORITY, CLIENT_KEY, EDGE_KEY, NOW_S, READERS, read
from nearcast.broker.notices import Notice, encode_entry, encode_notices
from nearcast.experiments.survive.random_messages import random_value
from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.overlay import messages as overlay
from nearcast.overlay.messages import Codec
from nearcast.overlay.nodes import LinkSeq, NodeOf
from nearcast.overlay.overlay import Rule
from nearcast.routing.keys import Key, subscriber_key
from nearcast.runtime.manager_store import ManagerStore
from nearcast.sdk.credentials import Credentials, save_credentials
from nearcast.server.enrolment import EnrolledClient
from nearcast.server.manager_state import (
    PlanVersion,
    SiteServer,
    with_flow,
    with_revocations,
    with_site,
)
from nearcast.server.mesh_messages import MeshMessage, WhereIs, decode_mesh, encode_mesh
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient, PlannedTopic, SitePlan
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder, TopicOrder
from nearcast.site.credential_register import CredentialRegister, Issued
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.authority import ALWAYS
from nearcast.testing.fake_disk import FakeDisk
from nearcast.trust.credentials import Role, ServerCredential, Signs, issue_server
from nearcast.trust.revocations import Revocation, RevocationList, issue_revocations
from nearcast.trust.rights import Rights
from nearcast.trust.signed import SigningKey
from nearcast.wire.actions import Home
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import Refused, decode, encode
from nearcast.wire.framing import InitKeys, write_unknown
from nearcast.wire.handshake_gate import HandshakeGate
from nearcast.wire.messages import Heartbeat, Init, Message, Published, Revoked
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Publication
from nearcast.wire.settings import WireSettings
from nearcast.wire.stream_channel import StreamChannel

__all__ = ["make_fixtures"]

_MANAGER_KEY = b"m" * 32
_SIGNS: tuple[Signs, ...] = ("clients", "orders", "revocations")
_RIGHTS = Rights(("traffic/+/north",), ("city/#",))
_CLIENT = AUTHORITY.client("car-7", public_key(CLIENT_KEY), _RIGHTS, 7)
_MOST_BYTES = 300
_DRAWS = 400
_MOST_DRAWS = 20_000
"""For kinds that are seldom drawn without a mistake."""
_REVOKED = Revocation("client", "thief", 3, 1 << 39)
_COUNT = Component("person-count", ("road",), "people", {"every": 3}, ContentMapping("camera"))
_FLOW = Flow("watch", ("road",), {"count": _COUNT})


def make_fixtures(folder: Path) -> None:
    """Write all files into a folder, and what they say."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_spool(folder / "spool")
    server = _server("e1", "edge", EDGE_KEY)
    (folder / "server.hex").write_text(server.hex() + "\n")
    manager = _server("manager", "manager", _MANAGER_KEY, _SIGNS)
    (folder / "manager.hex").write_text(manager.hex() + "\n")
    revoked = issue_revocations(AUTHORITY.key, RevocationList(4, 9, (_REVOKED,)))
    (folder / "revocations.msgpack").write_bytes(revoked)
    (folder / "orders.msgpack").write_bytes(_orders(server, revoked))
    home = Home(("10.0.0.1", 7000), public_key(EDGE_KEY))
    other = Home(("10.0.0.2", 7000), public_key(b"o" * 32))
    authority = AUTHORITY.key.public_key
    credentials = Credentials(
        "car-7", CLIENT_KEY, home, 1.5, 2.0, {}, None, _CLIENT, authority, (other,)
    )
    save_credentials(credentials, folder / "client.json", overwrite=True)
    _write_manager(folder / "manager.db", server)
    _write_register(folder / "register.db", server)
    _write_json(folder / "wire-messages.json", _samples(Message, encode, _decode_one))
    _write_json(folder / "mesh-messages.json", _samples(MeshMessage, encode_mesh, decode_mesh))
    _write_json(folder / "overlay-messages.json", _overlay_messages())
    _write_json(folder / "datagrams.json", _datagrams())
    (folder / "link.hex").write_text(_link().hex() + "\n")
    says = {}
    for name in READERS:
        with tempfile.TemporaryDirectory() as scratch:
            says[name] = read(name, folder, Path(scratch))
    _write_json(folder / "says.json", says)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def _write_spool(folder: Path) -> None:
    """Write a spool with all kinds of frames, in a segment that is full and one that is in use."""
    disk = FakeDisk(1)
    log = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 11, spares=0))
    for number in range(1, 13):
        one = Publication("road", "car-7", 3, number, 10, 20, 1.5, 2.0, b"x" * 99)
        one.notices = encode_notices([Notice(0, b"told", ("sign-1",))])
        road = TopicChange(
            "road", (encode_entry(one),), 5, (Position("car-7", 3, number),), b"state", end=number
        )
        air = TopicChange("air", positions=(Position("drone", 1, number),))
        log.append(Group(number, (road, air)))
        if number == 6:
            log.append(Group(0, (TopicChange("road", live=5, aside=b"aside", end=number),)))
        if number == 11:
            log.append(Group(0, (TopicChange("air", ended=True),)))
        log.commit()
    log.seal()
    folder.mkdir(exist_ok=True)
    for name in disk.names():
        (folder / name).write_bytes(disk.read(name))


def _server(name: str, role: Role, key: bytes, signs: tuple[Signs, ...] = ()) -> bytes:
    signing_key = SigningKey(key).public_key if signs else b""
    credential = ServerCredential(name, role, public_key(key), 2, ALWAYS, signing_key, signs)
    return issue_server(AUTHORITY.key, credential)


def _server_order(server: bytes) -> ServerOrder:
    return ServerOrder("e1", "10.0.0.1", 7000, public_key(EDGE_KEY), "10.0.0.1", 7100, server)


def _orders(server: bytes, revoked: bytes) -> bytes:
    orders = Orders(
        revision=12,
        plan_version=3,
        cloud="cloud",
        servers=(_server_order(server),),
        topics=(TopicOrder("road", 100, ("e1", "cloud"), version=3, moved_from=("e2",)),),
        clients=(ClientOrder("car-7", "e1", {"road": "cloud"}),),
        processors=(ProcessorRule("#", "relay", acknowledge="two"),),
        server="e1",
        moved={"sign-1": "e2"},
        issued_s=int(NOW_S),
        revocations=revoked,
        flows=(FlowOrder(_FLOW, 11, {"count": "cloud"}),),
    )
    return sign_orders(SigningKey(_MANAGER_KEY), orders)


def _write_manager(path: Path, server: bytes) -> None:
    path.unlink(missing_ok=True)
    servers = {"e1": SiteServer(_server_order(server), (0.5, 1.0), 640.0, 3200.0, 100)}
    plan = SitePlan(
        (PlannedTopic("road", 100, ("e1",), True, "e1 cloud"),),
        [PlannedClient("car-7", "e1", {"road": DELEGATED}, ("road",))],
    )
    version = PlanVersion(1, NOW_S, "ratio", "optimised", 4.25, {"mean_ms": 1.5})
    state = with_revocations(with_site(None, servers, plan, version), [_REVOKED], int(NOW_S))
    key, until_s = public_key(CLIENT_KEY), ALWAYS.until_s
    enrolled = EnrolledClient("car-7", key, "e1", (1.5, 2.0), 7, until_s, _RIGHTS, _CLIENT)
    store = ManagerStore(path)
    store.save_site(state, plan)
    store.save_clients([enrolled], state)
    store.save_flows(with_flow(state, _FLOW, {"count": "e1"}))
    store.close()


def _write_register(path: Path, server: bytes) -> None:
    path.unlink(missing_ok=True)
    CredentialRegister(path).note(
        [
            Issued("server", "e1", 2, ALWAYS.until_s, server),
            Issued("client", "car-7", 7, ALWAYS.until_s, _CLIENT),
        ]
    )


def _samples(
    union: Any, encode_one: Callable[[Any], bytes], decode_one: Callable[[bytes], Any]
) -> dict[str, str]:
    """Return one message of each kind as hex digits, with as much in it as is handy."""
    found = {}
    for kind in typing.get_args(union):
        rng, best = Random(kind.__name__), b""
        for draw in range(_MOST_DRAWS):
            if draw >= _DRAWS and best:
                break
            try:
                data = encode_one(random_value(kind, rng))
                says = msgspec.json.encode(decode_one(data))
            except (Refused, OverflowError, TypeError, ValueError, msgspec.MsgspecError):
                continue
            if len(best) < len(data) <= _MOST_BYTES and b"null" not in says:
                best = data
        found[kind.__name__] = best.hex()
    return found


def _decode_one(data: bytes) -> Message:
    ((message, _),) = decode(data)
    return message


def _datagrams() -> dict[str, str]:
    settings, server_key = WireSettings(), public_key(EDGE_KEY)
    gate = HandshakeGate(EDGE_KEY, AUTHORITY.trust().client, Random(2).randbytes, settings)
    home = Home(("e1", 1), server_key)
    handshake = ClientHandshake(CLIENT_KEY, home, Random(1).randbytes, settings, NOW_S)
    init = handshake.write_init(Init(epoch=3, credential=_CLIENT), NOW_S).data
    admission = gate.admit(init, ("c", 1), NOW_S)
    server, acknowledge, _ = gate.welcome(admission, 5, NOW_S)
    client, _ = handshake.read_acknowledge(acknowledge)
    sealed = client.seal(encode(Heartbeat(b"token", lost=True)))
    gate.revoked = (Revoked(b"page", b"signer"),)
    question = InitKeys(server_key).write_question(7, 1, 256)
    sent = {
        "init": init,
        "acknowledge": acknowledge,
        "cookie": InitKeys(server_key).write_cookie(init, b"k" * 16, b"n" * 12),
        "sealed by the client": sealed,
        "sealed by the server": server.seal(encode(Published("road", 3, 9))),
        "unknown": write_unknown(sealed),
        "question": question,
        "opinion": gate.answer(question, NOW_S),
    }
    return {name: data.hex() for name, data in sent.items()}


def _overlay_messages() -> dict[str, str]:
    """Return one overlay message of each kind, as servers send it."""
    left, me, right = (
        NodeOf(subscriber_key("\x00servers", ("jp", "yrp"), place, place + 1), f"e{place}", place)
        for place in (1, 5, 9)
    )
    nodes, seq, place = (left, right), LinkSeq(2, 7), (me.key, me.peer, me.nonce)
    kinds: list[overlay.Message[Key]] = [
        overlay.SetR(me, 3, left, overlay.LinkChange.DELETE, right, left, seq, nodes),
        overlay.SetRAck(me, 3, seq, nodes),
        overlay.SetRNak(me, 3, left, right),
        overlay.SetL(me, left, seq, nodes),
        overlay.Propagate(me, nodes, right),
        overlay.GetCandidates(me, 3, left),
        overlay.Candidates(me, 3, True, nodes, right, seq),
        overlay.GetEntry(me, 3, left, True, 4, nodes, nodes),
        overlay.EntryAnswer(me, 3, nodes, nodes),
        overlay.RemoveReverse(me, left),
        overlay.RemoveEntry(me, left, nodes, True),
        overlay.Gone(3),
        overlay.Route(
            me, 3, "e1", 8, overlay.RouteKind.LOOKUP, place, b"x", Rule.LINEAR, 2, True, nodes
        ),
        overlay.HopAck(3, True),
        overlay.Answer(3, left, right, 2, nodes),
        overlay.RangeSend(3, "e1", 8, me.key, (overlay.Piece(me, place, place),), b"x", 2),
        overlay.RangeAnswer(3, place, place, left),
    ]
    codec = Codec(Key)
    return {type(one).__name__: codec.encode(one).hex() for one in kinds}


def _link() -> bytes:
    """Return all that a server sends that dials another one and says something."""
    dialling = StreamChannel.dial(
        static=_MANAGER_KEY, ephemeral=b"1" * 32, peer_key=public_key(EDGE_KEY), payload=b"hello"
    )
    answering = StreamChannel.answer(
        static=EDGE_KEY, ephemeral=b"2" * 32, accepts=lambda _key, _payload: True
    )
    dialling.begin()
    sent = dialling.take_output()
    answering.receive(sent, NOW_S)
    dialling.receive(answering.take_output(), NOW_S)
    message = encode_mesh(WhereIs("car-7"))
    dialling.send(encode_frame(PeerFrame(11, False, 1, 1, [message], 12, 0)))
    return sent + dialling.take_output()


if __name__ == "__main__":
    make_fixtures(Path(sys.argv[1]))
