"""Defects that were there once, on sites of one or two servers: each check notices its own."""

from __future__ import annotations

from unittest.mock import patch

from nearcast.experiments.survive.attacked_site import AttackedSite
from nearcast.experiments.survive.attacks import ATTACKS
from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.server.orders_from_plan import DELEGATED
from nearcast.server.processor_rules import Acknowledge
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.counting_processor import COUNTING
from nearcast.testing.raw_client import RawClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.testing.whole_pass import whole_pass
from nearcast.trust.credentials import Validity
from nearcast.trust.revocations import (
    ALL_SERIALS,
    Revocation,
    RevocationList,
    issue_revocations,
    revoke,
)
from nearcast.trust.rights import EVERYTHING, Rights
from nearcast.wire.actions import Acknowledged
from nearcast.wire.codec import encode
from nearcast.wire.framing import InitKeys
from nearcast.wire.limits import payload_limit
from nearcast.wire.messages import Heartbeat, Publish
from nearcast.wire.noise import public_key
from nearcast.wire.settings import WireSettings

__all__ = [
    "any_processor",
    "back_pressure",
    "bug_in_a_topic",
    "cloud_away",
    "extreme_time",
    "handshake_budget",
    "large_transfer",
    "level_two",
    "locked_out",
    "old_keys",
    "payload_sizes",
    "revoked_session",
    "stale_redirect",
    "topics_of_a_client",
    "topics_that_nobody_uses",
    "unset_clock",
]

_TOPIC, _CLIENT = "t", "car"
_FLOOD = 3_000
_FRAME_BYTES = 300_000
"""Far less than the spool that a broker gets which is new, and more than a piece of it."""


class _Edges:
    """One server or two, and a client at the first one."""

    def __init__(
        self,
        processor: str = "",
        *,
        rights: Rights = EVERYTHING,
        acknowledge: Acknowledge = "one",
        wire: WireSettings | None = None,
        edges: int = 1,
        **limits: float,
    ) -> None:
        site = self.site = SimulatedSite(1, wire=wire)
        site.limits = limits
        self.server = site.add_server("e0")
        for number in range(1, edges):
            site.add_server(f"e{number}")
        self.client = site.add_client(_CLIENT, "e0", rights=rights)
        self.topics = (TopicOrder(_TOPIC, 1_000, ("e0",), processor, acknowledge=acknowledge),)
        self.home = "e0"
        self.obey(1)
        site.connect([self.client])
        site.run(2.0)
        node = self.server.node
        assert node is not None
        assert node.sessions is not None
        self.node, self.sessions = node, node.sessions

    def obey(self, revision: int, revocations: bytes = b"") -> None:
        order, servers = ClientOrder(_CLIENT, self.home), self.site.server_orders()
        orders = Orders(revision, 1, "", servers, self.topics, (order,), revocations=revocations)
        self.site.obey(orders)

    def publish(self, *topics: str) -> None:
        """Publish to topics, a second each."""
        for topic in topics:
            self.client.publish(topic, b"x")
            self.site.run(1.0)

    def send(self, message: Publish) -> None:
        """Send a publication as a client that heeds no limit."""
        link, address = self.client.session._home.link, self.sessions.address_of(_CLIENT)  # noqa: SLF001
        assert link is not None
        assert address is not None
        sealed = link.channel.seal(encode(message))
        self.server.do(whole_pass(self.node, [(sealed, address)], self.site.now))

    def newcomer(self, validity: Validity) -> RawClient:
        """Return another client, with a credential of its own."""
        key = self.site.random.randbytes(32)
        credential = self.site.authority.client("new", public_key(key), validity=validity)
        return RawClient(self.site, "new", key, self.server.home, credential)

    @property
    def acknowledged(self) -> set[str]:
        """Topics of which the client heard that something is safe."""
        return {one.topic for _, one in self.client.events if isinstance(one, Acknowledged)}


def any_processor() -> bool:
    """Order a processor that the server's configuration does not name."""
    return _TOPIC in _Edges(COUNTING).node.broker.topics


def extreme_time() -> bool:
    """Publish at a time that no encoder takes."""
    made = _Edges()
    epoch = made.client.session.epoch
    made.send(Publish(_TOPIC, epoch, 1, 1, True, b"x", published_us=(1 << 64) - 1))
    return made.node.counts["publications"] > 0


def bug_in_a_topic() -> bool:
    """Publish to a topic whose broker raises, and to another one."""
    made = _Edges()
    made.publish("broken")
    broken, bug = made.node.broker.topics["broken"], RuntimeError("a bug")
    with (
        patch.object(broken, "begin", side_effect=bug),
        patch.object(broken, "run", side_effect=bug),
    ):
        made.client.publish("broken", b"x")
        try:
            made.publish(_TOPIC)
        except RuntimeError:  # a shell would lose the pass
            return True
    return _TOPIC not in made.acknowledged


def topics_of_a_client() -> bool:
    """Publish to ever new topics with the right to three."""
    made = _Edges(rights=Rights(("#",), ("#",), topics=3))
    made.publish(*(f"new{number}" for number in range(6)))
    return len(made.node.broker.topics) > 1 + 3


def topics_that_nobody_uses() -> bool:
    """Wait until a topic that nobody uses has to be gone."""
    made = _Edges(topic_idle_s=60.0)
    made.publish("idle")
    made.site.run(150.0)
    return "idle" in made.node.broker.topics


def revoked_session() -> bool:
    """Revoke a client that has a session."""
    made = _Edges()
    entry = Revocation("client", _CLIENT, ALL_SERIALS, 1 << 40)
    revoked = revoke(RevocationList(), [entry], 0)
    made.obey(2, issue_revocations(made.site.authority.key, revoked))
    made.site.run(5.0)
    return _CLIENT in made.sessions


def old_keys() -> bool:
    """Go on with a session whose keys are old, as a client that never replaces them."""
    made = _Edges(wire=WireSettings(rekey_s=5.0))
    raw = made.newcomer(Validity(0, 1 << 40))
    raw.connect()
    for _ in range(20):
        made.site.run(1.0)
        raw.send(raw.seal(encode(Heartbeat(b""))))
    return "new" in made.sessions


def unset_clock() -> bool:
    """Let a server boot before it knows the time, and a client come with a new credential."""
    made = _Edges()
    made.server.clock.jump(5.0 - made.site.now)
    made.server.kill()
    made.server.restart()
    made.obey(2)
    raw = made.newcomer(Validity(int(made.site.now), 1 << 40))
    raw.connect()
    made.site.run(1.0)
    return raw.channel is None


def back_pressure() -> bool:
    """Publish while the disk stalls."""
    made = _Edges()
    made.node.commit_wait_s = 60.0
    made.client.publish(_TOPIC, b"x")
    made.site.run(0.5)
    return made.node.counts["busy"] == 0


def handshake_budget() -> bool:
    """Flood a server with INITs: few handshakes are computed for addresses that prove nothing."""
    attacked = AttackedSite(2)
    node = attacked.home.node
    assert node is not None
    assert node.sessions is not None
    ATTACKS["init flood"](attacked, _FLOOD)
    return node.sessions.drops["cookie_needed"] < _FLOOD / 2


def locked_out() -> bool:
    """Come from a network in whose name somebody else floods the server."""
    made = _Edges()
    keys, random_bytes = InitKeys(made.server.home.server_key), made.site.random.randbytes
    for number in range(200):
        made.server.on_datagram(keys.write_init(1, random_bytes(300)), (f"10.0.0.{number}", 1))
    key = random_bytes(32)
    credential = made.site.authority.client("new", public_key(key))
    raw = RawClient(made.site, "10.0.0.201", key, made.server.home, credential)
    raw.connect()
    made.site.run(1.0)
    return raw.channel is None


def payload_sizes() -> bool:
    """Publish what is too large to be notified, as a client that heeds no limit."""
    made = _Edges()
    size = payload_limit(_TOPIC, _CLIENT, WireSettings().datagram_limit) + 1
    made.send(Publish(_TOPIC, made.client.session.epoch, 1, 1, True, bytes(size)))
    return made.node.counts["publications"] > 0


def stale_redirect() -> bool:
    """Send a client elsewhere that cannot go, and take that back before it can."""
    made = _Edges(edges=2)
    cut = frozenset((_CLIENT, "e1"))
    made.site.run(3.0)  # e0 has heard e1: it is there
    made.site.network.cuts.add(cut)
    made.home = "e1"
    made.obey(2)
    made.site.run(3.0)
    made.home = "e0"
    made.obey(3)
    made.site.run(30.0)
    made.site.network.cuts.discard(cut)
    made.site.run(60.0)
    return made.site.servers["e1"].counts["sessions_opened"] > 0


def large_transfer() -> bool:
    """Give a broker that is new a large spool."""
    made, sizes = _Edges(edges=2), [0]
    for _ in range(900):
        made.client.publish(_TOPIC, bytes(600))
        made.site.run(0.02)
    send_frame = made.site.send_frame

    def measure(sender: str, receiver: str, frame: bytes) -> None:
        sizes.append(len(frame))
        send_frame(sender, receiver, frame)

    with patch.object(made.site, "send_frame", measure):
        made.topics = (TopicOrder(_TOPIC, 1_000, ("e0", "e1")),)
        made.obey(2)
        made.site.run(10.0)
    return not 1_000 < max(sizes) < _FRAME_BYTES


def level_two() -> bool:
    """Publish what has to be on two servers where there is one."""
    made = _Edges("forward", acknowledge="two")
    made.publish(_TOPIC)
    made.site.run(10.0)
    return bool(made.acknowledged)


def cloud_away() -> bool:
    """Publish what the cloud server processes, while it is away."""
    trial = TrialSite(
        1, publishers=1, subscribers=1, is_in_order=True, homes=("e0",), targets=(DELEGATED,)
    )
    trial.start()
    trial.publish_some(4, 0.5)
    trial.site.servers["cloud"].kill()
    trial.publish_some(4, 0.5)
    trial.site.run(20.0)
    return trial.waiting > 0
