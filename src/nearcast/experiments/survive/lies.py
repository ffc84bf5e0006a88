"""Lies of a server: e1 has a valid link and speaks of streams and clients that are not its own.

What a server can do that was broken into is in ``docs/threat-model.md``: it can speak for clients
that are there, and notify subscribers of topics that they subscribe to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import structs

from nearcast.broker.ownership import Token
from nearcast.experiments.survive.attacked_site import AttackedSite
from nearcast.experiments.survive.trial_site import CLOUD
from nearcast.server.broker_messages import (
    Advance,
    Claim,
    Copies,
    CopyAck,
    CopyNack,
    Denied,
    Yielded,
)
from nearcast.server.mesh_messages import (
    HomeNotice,
    Manages,
    MeshMessage,
    NewOrders,
    Notices,
    SpoolDamaged,
    Undelivered,
    encode_mesh,
)
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.server.proof_messages import HomeProved, Vouch
from nearcast.server.publisher_messages import (
    Forward,
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    ForwardRefuse,
)
from nearcast.server.signed_orders import sign_orders
from nearcast.spool.changes import Position
from nearcast.testing.authority import ALWAYS, SmallAuthority
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.trust.credentials import ServerCredential, issue_server
from nearcast.trust.revocations import Revocation, RevocationList, issue_revoked_servers
from nearcast.trust.signed import SigningKey
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import Notify, Revoked
from nearcast.wire.publication import Origin, Publication

__all__ = ["LIES"]

_AT_ONCE = 50
_SILENT_S = 60.0
"""After which a publisher might be elsewhere, for all that its broker hears of it."""
_TOPIC, _VICTIM = "t0", "p0"
_INCARNATION = 77
_FORGERS_KEY = b"f" * 32
"""Of e1 as the liar plays it."""


def _tell(
    lies: Callable[[AttackedSite, int], MeshMessage],
    to: Callable[[AttackedSite], SimulatedServer],
    attacked: AttackedSite,
    each: int,
) -> None:
    """Send lies in the name of e1, while a publication of p0 is under way to the cloud."""
    site = attacked.site
    site.network.cuts.add(frozenset((attacked.home.name, attacked.cloud.name)))
    attacked.trial.publish()
    for start in range(1, each + 1, _AT_ONCE):
        contents = [
            encode_mesh(lies(attacked, number)) for number in range(start, start + _AT_ONCE)
        ]
        frame = encode_frame(PeerFrame(_INCARNATION, False, start, start, contents, 0, 0))
        to(attacked).on_mesh("e1", frame)
    site.run(1.0)


def _epoch(attacked: AttackedSite) -> int:
    return attacked.site.clients[_VICTIM].session.epoch


def _sequence(attacked: AttackedSite, number: int) -> int:
    """Return the sequence of p0's last publication, which is under way, or a later one."""
    return len(attacked.trial.messages) + number % 30


def _record(attacked: AttackedSite, number: int, origin: Origin) -> bytes:
    epoch, sequence = _epoch(attacked), _sequence(attacked, number)
    lie = Publication(_TOPIC, _VICTIM, epoch, sequence, 0, 0, 0.0, 0.0, b"t0 p0 999", origin)
    return lie.record()


def _forward_ack(attacked: AttackedSite, number: int) -> MeshMessage:
    return ForwardAck(_TOPIC, _VICTIM, _epoch(attacked), _sequence(attacked, number))


def _forward_others(attacked: AttackedSite, number: int) -> MeshMessage:
    epoch, sequence = _epoch(attacked), _sequence(attacked, number)
    kinds: list[MeshMessage] = [
        ForwardNack(_TOPIC, _VICTIM, epoch, sequence, 1),
        ForwardBusy(_TOPIC, _VICTIM, 1_000.0),
        ForwardRefuse(_TOPIC, _VICTIM, epoch + 100, sequence, True, 1),
    ]
    return kinds[number % len(kinds)]


def _forward(attacked: AttackedSite, number: int) -> MeshMessage:
    """Publish in the name of a client whose credential nobody has seen."""
    lie = Publication(_TOPIC, f"made up {number % 7}", 1, 1, 0, 0, 0.0, 0.0, b"t0 p0 999")
    return Forward(_TOPIC, (lie.record(),), (1,))


def _forward_silent(attacked: AttackedSite, number: int) -> MeshMessage:
    """Publish in the name of p0, which is at e0 and has been silent for long."""
    kinds: list[MeshMessage] = [
        Vouch((attacked.site.clients[_VICTIM].credential,)),
        Forward(
            _TOPIC, (_record(attacked, number, Origin.DIRECT),), (_sequence(attacked, number),)
        ),
        HomeProved(_VICTIM, number.to_bytes(16, "big"), number.to_bytes(16, "big")),
        Claim(_TOPIC, (_VICTIM,), Token(0, number, "e1", 1)),
    ]
    return kinds[number % len(kinds)]


def _manages(attacked: AttackedSite, number: int) -> MeshMessage:
    """Say that it manages a topic, and ask for what others have of it."""
    kinds: list[MeshMessage] = [
        Manages(_TOPIC, past=number % 8 == 0, publisher=_VICTIM),
        SpoolDamaged(_TOPIC),
        CopyNack(_TOPIC, _VICTIM, _epoch(attacked), ((1, 20),)),
        _record_copies(attacked, number),
    ]
    return kinds[number % len(kinds)]


def _record_copies(attacked: AttackedSite, number: int) -> MeshMessage:
    lie = Publication(_TOPIC, f"made up {number % 7}", 1, 1, 0, 0, 0.0, 0.0, b"t0 p0 999")
    return Copies(_TOPIC, (lie.record(),))


def _copies(attacked: AttackedSite, number: int) -> MeshMessage:
    return Copies(_TOPIC, (_record(attacked, number, Origin.COPY),))


def _advance(attacked: AttackedSite, number: int) -> MeshMessage:
    return Advance(_TOPIC, _VICTIM, _epoch(attacked), _sequence(attacked, number))


def _yielded(attacked: AttackedSite, number: int) -> MeshMessage:
    position = Position(_VICTIM, _epoch(attacked), _sequence(attacked, number))
    return Yielded(_TOPIC, Token(number % 5, number), (position,))


def _claim(attacked: AttackedSite, number: int) -> MeshMessage:
    """Claim streams by an assignment that nobody ordered, or of publishers that are elsewhere."""
    token = Token(number << 20 if number % 2 else 0, number, "e1", 1)
    return Claim(_TOPIC, (_VICTIM, f"made up {number % 7}"), token, whole=number % 3 == 0)


def _denied(attacked: AttackedSite, number: int) -> MeshMessage:
    """Deny claims, and acknowledge copies, that nobody asked it for."""
    if number % 2:
        return CopyAck(_TOPIC, Position(_VICTIM, _epoch(attacked), _sequence(attacked, number)))
    against = Token(number << 20, number, "e1", 1)
    return Denied(_TOPIC, (_VICTIM,), Token(number % 5, number % 9, "cloud"), against)


def _notices(attacked: AttackedSite, number: int) -> MeshMessage:
    """Notify a client of a topic that it has not subscribed to, or in another broker's name."""
    sequence = _sequence(attacked, number)
    notify = Notify("unwanted", _VICTIM, _epoch(attacked), sequence, True, 0, b"t0 p0 999", 1, 1, 1)
    if number % 2:
        return Notices((HomeNotice(encode_notify(notify), ("s0",)),))
    epoch = attacked.site.clients["s0"].session.epoch
    return Undelivered("s0", (encode_notify(notify),), epoch=epoch)


def _orders(attacked: AttackedSite, number: int) -> MeshMessage:
    node = attacked.home.node
    assert node is not None
    assert node.orders is not None
    forged = structs.replace(node.orders, revision=node.orders.revision + number)
    signer = SigningKey(_FORGERS_KEY) if number % 2 else attacked.site.authority.key
    return NewOrders(sign_orders(signer, forged))  # a right signature over the wrong link as well


def _revoked_servers(attacked: AttackedSite, each: int) -> None:
    """Have the home of p0 and s0 tell them lists of revoked servers that nobody signed who may."""
    forger, authority = SmallAuthority(_FORGERS_KEY), attacked.site.authority
    key = SigningKey(_FORGERS_KEY)
    entries = tuple(Revocation("server", name, 1 << 62, 1 << 40) for name in ("e0", "e1", CLOUD))
    true = authority.revoked_servers("e0")["revoked_servers"][0]
    credential = ServerCredential("e1", "edge", bytes(32), 9, ALWAYS, key.public_key, ("orders",))
    signers = [b"", true, authority.server("e1", bytes(32)), issue_server(forger.key, credential)]
    signers += [issue_server(authority.key, credential), authority.client("p0", bytes(32))]
    node = attacked.home.node
    assert node is not None
    assert node.sessions is not None
    for number in range(each):
        (page,) = issue_revoked_servers(key, RevocationList(number, 0, entries))
        if number % 7 == 6:  # a list of the authority, with a bit flipped
            flipped = bytearray(true)
            flipped[attacked.rng.randrange(len(flipped))] ^= 1 << number % 8
            page = bytes(flipped)
        for client in ("p0", "s0"):
            node.sessions.tell(client, Revoked(page, signers[number % len(signers)]))
        if number % 16 == 15:
            attacked.home.do(node.on_timer(attacked.site.now))
            attacked.site.run(0.01)
    if any(one.session.revoked for one in attacked.site.clients.values()):
        attacked.report.violations.append("a client believed a forged list of revoked servers")


def _after_silence(
    tell: Callable[[AttackedSite, int], None],
) -> Callable[[AttackedSite, int], None]:
    def attack(attacked: AttackedSite, each: int) -> None:
        attacked.site.run(_SILENT_S)
        tell(attacked, each)

    return attack


def _home(attacked: AttackedSite) -> SimulatedServer:
    return attacked.home


def _cloud(attacked: AttackedSite) -> SimulatedServer:
    return attacked.cloud


def _all() -> Iterator[tuple[str, Callable[[AttackedSite, int], None]]]:
    for name, lie, to in (
        ("lies: acknowledged", _forward_ack, _home),
        ("lies: missing, busy, refused", _forward_others, _home),
        ("lies: publications", _forward, _cloud),
        ("lies: topics that it manages", _manages, _cloud),
        ("lies: copies", _copies, _cloud),
        ("lies: positions", _advance, _cloud),
        ("lies: yielded", _yielded, _cloud),
        ("lies: claims", _claim, _cloud),
        ("lies: denied, kept", _denied, _cloud),
        ("lies: notifications", _notices, _home),
        ("lies: orders", _orders, _home),
    ):
        yield name, partial(_tell, lie, to)
    yield "lies: revoked servers", _revoked_servers
    yield "lies: silent publishers", _after_silence(partial(_tell, _forward_silent, _cloud))


LIES: dict[str, Callable[[AttackedSite, int], None]] = dict(_all())
"""By name; each is given a site and how often."""
