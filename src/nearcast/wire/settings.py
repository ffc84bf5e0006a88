"""The settings of sessions; both sides of a site should agree on the datagram limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearcast.errors import ConfigError

__all__ = ["Address", "RandomBytes", "WireSettings"]

Address = tuple[str, int]
"""Host and port of the other side."""

RandomBytes = Callable[[int], bytes]
"""Returns N random bytes: the system's in production, a seeded generator's in simulations."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Limits and timers. Times are in seconds of the `now` that callers pass.

    `now` is Unix time that never runs backwards: the wall clock at the start plus what a
    monotonic clock counted since. The two sides' clocks need not agree.
    """

    datagram_limit: int = 1_200
    """Most bytes per datagram: 1,200 passes nearly every path unfragmented; at most 65,507."""
    report_interval_s: float = 10.0
    """How often a client reports; the server tells it."""
    missed_reports: int = 3
    """Intervals without a datagram after which a session ends."""
    counter_limit: int = 1 << 32
    """Datagrams per direction and session, far below what AES-GCM allows."""

    rekey_s: float = 3_600.0
    """Age of a session at which a client replaces its keys; a server ends it at twice that."""

    half_open_s: float = 10.0
    """How long a server waits for the first datagram after the handshake."""
    half_open_limit: int = 4
    """Sessions of one client that may wait for it; for more, INITs need a cookie."""
    session_limit: int = 10_000
    """Most sessions of a server, half-open ones included."""
    cookie_rotation_s: float = 120.0
    """How often the secret behind the cookies changes; the last one still counts."""
    inits_per_s: float = 500.0
    """More INITs than this are load: from then on each needs a cookie."""
    proved_inits_per_s: float = 1_000.0
    """INITs with a cookie that are accepted; with `inits_per_s` it bounds the time they take."""
    cookies_per_s: float = 5_000.0
    """Cookies that are sent; in a flood beyond it clients try again until they get one."""
    prefix_inits_per_s: float = 20.0
    """INITs accepted per address prefix (/24 or /48) without a cookie, and per address with one."""
    prefix_burst: float = 40.0
    """The same at once."""
    prefix_limit: int = 4_096
    """Most prefixes, and most addresses, remembered."""
    seen_init_limit: int = 16_384
    """INITs whose repetition is refused at once."""

    first_retry_s: float = 0.25
    """Wait before something is sent again while no round trip has been measured."""
    least_retry_s: float = 0.1
    """Shortest wait before something is sent again."""
    longest_retry_s: float = 5.0
    """Longest wait; waits double up to here."""
    probe_after_s: float = 3.0
    """Silence after which a client asks its server whether it is still there."""
    answer_within_s: float = 3.0
    """Time without any answer after which a client looks for its home anew."""
    handshake_tries: int = 5
    """Tries before a home counts as out of reach, and other servers are tried too."""
    lost_home_tries: int = 3
    """The same for a home that the client had a session with and that has fallen silent."""
    second_opinion_s: float = 60.0
    """How often a client asks a server other than its home which servers were revoked."""
    publish_window: int = 64
    """Durable publications in flight per topic; also what a server holds behind a gap."""
    publish_limit: int = 4_096
    """Durable publications that a client keeps unacknowledged."""
    notification_limit: int = 256
    """Datagrams of unconfirmed notifications that a server keeps per session."""
    receipt_delay_s: float = 0.15
    """How long a client gathers notifications before it confirms them, if none is missing."""
    notification_retry_s: float = 0.4
    """Wait before notifications are sent again that nobody confirmed: longer than clients gather,
    and a round trip. Those that are known to be missing do not wait."""
    order_wait_s: float = 0.5
    """How long a notification waits at a client for those before it; 0: not at all."""

    sessions_per_s: float = 10.0
    """Sessions that a client may open, three seconds' worth at once; more INITs get no answer."""
    messages_per_s: float = 1_000.0
    """Most publications and other messages of a client, unless its rights say otherwise."""
    topic_limit: int = 100
    """Most topics that a client may bring into being, unless its rights say otherwise."""
    subscription_limit: int = 1_000
    """Most subscriptions of a client."""

    def __post_init__(self) -> None:
        if not 512 <= self.datagram_limit <= 65_507:
            raise ConfigError("datagram_limit must lie between 512 and 65507 bytes")
        if not 1 <= self.publish_window <= 1_024:
            raise ConfigError("publish_window must lie between 1 and 1024")
        if not 1 <= self.session_limit <= 500_000:
            raise ConfigError("session_limit must lie between 1 and 500000")
