"""What all sessions of a client share: who it is, where it is, and what it has to say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nearcast.wire.actions import ClientEvent, SendDatagram
from nearcast.wire.clock_difference import ClockDifference
from nearcast.wire.epochs import Epochs
from nearcast.wire.home_proof import Prover
from nearcast.wire.messages import Init, Report
from nearcast.wire.server_check import ServerCheck
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["ClientContext"]


@dataclass(slots=True)
class ClientContext:
    """A client, apart from its sessions."""

    static_key: bytes
    """Its X25519 private key."""
    random_bytes: RandomBytes
    settings: WireSettings
    credential: bytes = b""
    """What the site's authority signed about it."""
    client: str = ""
    """Its id."""
    servers: ServerCheck = field(default_factory=lambda: ServerCheck(b""))
    """Decides which servers it is told of belong to its site."""
    prover: Prover = field(init=False)
    """Proves to other servers where its home is."""
    report: Report = field(default_factory=lambda: Report(0.0, 0.0))
    """What the next report says."""
    epochs: Epochs = field(default_factory=Epochs)
    site_clock: ClockDifference = field(default_factory=ClockDifference)
    """How far the site's time is ahead of this client's."""
    once: Counter[str] = field(default_factory=Counter)
    """Fire-and-forget publications so far, by topic."""
    drops: Counter[str] = field(default_factory=Counter)
    """What was refused or not sent, by reason."""
    outgoing: list[SendDatagram] = field(default_factory=list)
    events: list[ClientEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prover = Prover(self.static_key)

    def take_outgoing(self) -> list[SendDatagram]:
        """Return the datagrams that are ready, once."""
        outgoing, self.outgoing = self.outgoing, []
        return outgoing

    def make_init(self, *, visits: bool, asks: int = 0) -> Init:
        """Return what the next INIT says."""
        report = self.report
        return Init(
            epoch=self.epochs.issued,
            x_km=report.x_km,
            y_km=report.y_km,
            direction_deg=report.direction_deg,
            speed_mps=report.speed_mps,
            credential=self.credential,
            visits=visits,
            asks=asks,
        )
