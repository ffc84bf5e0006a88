"""Defects that were there once, on sites of one or two servers: each check notices its own."""

from __future__ import annotations

from nearcast.errors import TrustError
from nearcast.experiments.survive.attacked_site import AttackedSite
from nearcast.experiments.survive.attacks import ATTACKS
from nearcast.server.enrolment import EnrolledClient, Enroller, Enrolment, EnrolmentRules
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder, TopicOrder
from nearcast.server.stream_targets import Capacity, StreamTargets
from nearcast.testing.counting_processor import COUNTING
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.testing.whole_pass import whole_pass
from nearcast.trust.revocations import (
    ALL_SERIALS,
    Revocation,
    RevocationList,
    issue_revocations,
    revoke,
)
from nearcast.trust.rights import EVERYTHING
from nearcast.trust.signed import SigningKey
from nearcast.wire.codec import encode
from nearcast.wire.limits import payload_limit
from nearcast.wire.messages import Publish
from nearcast.wire.settings import WireSettings

__all__ = [
    "any_processor",
    "any_token",
    "back_pressure",
    "handshake_budget",
    "payload_sizes",
    "revoked_session",
    "stream_targets",
]

_TOPIC, _CLIENT = "t", "car"
_FLOOD = 3_000


class _OneEdge:
    """A server with a client."""

    def __init__(self, processor: str = "") -> None:
        site = self.site = SimulatedSite(1)
        self.server = site.add_server("e0")
        self.client = site.add_client(_CLIENT, "e0")
        self.topics = (TopicOrder(_TOPIC, 100, ("e0",), processor),)
        self.obey(1)
        site.connect([self.client])
        site.run(2.0)
        node = self.server.node
        assert node is not None
        assert node.sessions is not None
        self.node, self.sessions = node, node.sessions

    def obey(self, revision: int, revocations: bytes = b"") -> None:
        order, servers = ClientOrder(_CLIENT, "e0"), self.site.server_orders()
        orders = Orders(revision, 1, "", servers, self.topics, (order,), revocations=revocations)
        self.site.obey(orders)


def any_processor() -> bool:
    """Order a processor that the server's configuration does not name."""
    return _TOPIC in _OneEdge(COUNTING).node.broker.topics


def revoked_session() -> bool:
    """Revoke a client that has a session."""
    made = _OneEdge()
    entry = Revocation("client", _CLIENT, ALL_SERIALS, 1 << 40)
    revoked = revoke(RevocationList(), [entry], 0)
    made.obey(2, issue_revocations(made.site.authority.key, revoked))
    made.site.run(5.0)
    return _CLIENT in made.sessions


def back_pressure() -> bool:
    """Publish while the disk stalls."""
    made = _OneEdge()
    made.node.commit_wait_s = 60.0
    made.client.publish(_TOPIC, b"x")
    made.site.run(0.5)
    return made.node.counts["busy"] == 0


def payload_sizes() -> bool:
    """Publish what is too large to be notified, as a client that heeds no limit."""
    made = _OneEdge()
    link, address = made.client.session._home.link, made.sessions.address_of(_CLIENT)  # noqa: SLF001
    assert link is not None
    assert address is not None
    size = payload_limit(_TOPIC, _CLIENT, WireSettings().datagram_limit) + 1
    large = Publish(_TOPIC, made.client.session.epoch, 1, 1, True, bytes(size))
    sealed = link.channel.seal(encode(large))
    made.server.do(whole_pass(made.node, [(sealed, address)], made.site.now))
    return made.node.counts["publications"] > 0


class _Enrolled:
    """One client, which has its key."""

    def __init__(self) -> None:
        self._client = EnrolledClient("a", b"a" * 32, "e0", None, 1, 1 << 40, EVERYTHING, b"")

    def enrolled(self, client: str) -> EnrolledClient | None:
        """Return it."""
        return self._client if client == "a" else None

    def owner_of(self, public_key: bytes) -> str | None:
        """Return whose key it is."""
        return "a" if public_key == self._client.public_key else None

    def planned_home(self, client: str) -> str | None:
        """Return its home."""
        return "e0"


def any_token() -> bool:
    """Enrol a known client with another key, by a token that is for enrolment only."""
    enroller = Enroller(_Enrolled(), SigningKey(b"s" * 32), EnrolmentRules())
    homes = HomeChoice({"e0": SiteServer(ServerOrder("e0", "h", 1, b""))}, {})
    try:
        thief = Enrolment("a", b"b" * 32)
        enroller.enrol([thief], homes, RevocationList(), 1.7e9, is_operator=False)
    except TrustError:
        return False
    return True


def stream_targets() -> bool:
    """Publish to ever new topics: where each stream goes is remembered for so many only."""
    targets = StreamTargets("e0", Capacity(streams=100), 10)
    servers = (ServerOrder("e0", "e0", 1, bytes(32)),)
    targets.obey(Orders(1, 1, "cloud", servers, (), ()))
    for number in range(1_000):
        targets.target(f"t{number}", "p")
    return len(targets) > 100


def handshake_budget() -> bool:
    """Flood a server with INITs: few handshakes are computed for addresses that prove nothing."""
    attacked = AttackedSite(2)
    node = attacked.home.node
    assert node is not None
    assert node.sessions is not None
    ATTACKS["init flood"](attacked, _FLOOD)
    return node.sessions.drops["cookie_needed"] < _FLOOD / 2
