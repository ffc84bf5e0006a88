"""Attacks on the wire: forged, replayed, stolen and made up datagrams at servers and clients."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nearcast.experiments.survive.attacked_site import AttackedSite, AttackReport
from nearcast.experiments.survive.lies import LIES
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.raw_client import RawClient
from nearcast.trust.credentials import Validity
from nearcast.wire.framing import Header, Kind, read_header, write_header
from nearcast.wire.noise import public_key
from nearcast.wire.settings import Address

__all__ = ["ATTACKS", "run_attacks"]

_EVIL: Address = ("66.6.6.6", 666)
_SPAN_S = 30.0
"""Over which INITs come, so that most of them are looked at."""


def run_attacks(each: int, seed: int, begin: Callable[[str], object] = str) -> AttackReport:
    """Run each kind of attack `each` times; the same seed gives the same ones."""
    report = AttackReport()
    for kind, attack in {**ATTACKS, **LIES}.items():
        begin(kind)
        attacked = AttackedSite(seed)
        before = attacked.snapshot()
        attack(attacked, each)
        attacked.check(kind, before, each)
        report.attacks += attacked.report.attacks
        report.bytes_in += attacked.report.bytes_in
        report.bytes_out += attacked.report.bytes_out
        report.violations += [f"{one}, seed {seed}" for one in attacked.report.violations]
    return report


def _anywhere(rng: Random) -> Address:
    return f"{rng.randrange(1, 224)}.{rng.randrange(256)}.{rng.randrange(256)}.9", rng.randrange(
        1, 9
    )


def _forged_seals(attacked: AttackedSite, each: int) -> None:
    """Flip bits of a session's datagrams; counters from the future among them."""
    rng, true = attacked.rng, attacked.overheard_by(attacked.home, Kind.SEALED)[-20:]
    batch = []
    for _ in range(each):
        data = bytearray(rng.choice(true))
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        batch.append((bytes(data), rng.choice([_EVIL, ("p0", 1)])))
    attacked.send(attacked.home, batch)


def _replays(attacked: AttackedSite, each: int) -> None:
    rng, true = attacked.rng, attacked.overheard_by(attacked.home, Kind.SEALED)
    addresses = [_EVIL, ("p0", 1), ("s0", 1)]
    batch = [(rng.choice(true), rng.choice(addresses)) for _ in range(each)]
    attacked.send(attacked.home, batch)


def _replays_at_another_server(attacked: AttackedSite, each: int) -> None:
    rng, home = attacked.rng, attacked.home
    true = attacked.overheard_by(home, Kind.SEALED) + attacked.overheard_by(home, Kind.INIT)
    attacked.send(attacked.other, [(rng.choice(true), _anywhere(rng)) for _ in range(each)])


def _replayed_inits(attacked: AttackedSite, each: int) -> None:
    rng, true = attacked.rng, attacked.overheard_by(attacked.home, Kind.INIT)
    _over_time(attacked, [(rng.choice(true), _anywhere(rng)) for _ in range(each)])
    attacked.site.run(15.0)  # what was half open is forgotten


def _stolen_cookies(attacked: AttackedSite, each: int) -> None:
    """Send INITs of a client that has proved its address from other addresses."""
    rng, thief = attacked.rng, _raw_client(attacked, "thief", SmallAuthority())
    _flood(attacked, 600)  # from now on everybody needs a cookie
    while not any(read_header(one).kind is Kind.COOKIE for one in thief.received):
        _flood(attacked, 20)
        thief.connect()
        attacked.site.run(0.01)
    batch = [(thief.init(), _anywhere(rng)) for _ in range(each)]  # all with the thief's cookie
    _over_time(attacked, batch)
    attacked.site.run(15.0)


def _init_flood(attacked: AttackedSite, each: int) -> None:
    _flood(attacked, each)
    attacked.site.run(15.0)


def _flood(attacked: AttackedSite, count: int) -> None:
    strangers = SmallAuthority(b"\x07" * 32)
    bots = [_raw_client(attacked, f"bot{number}", strangers) for number in range(50)]
    rng = attacked.rng
    attacked.send(attacked.home, [(rng.choice(bots).init(), _anywhere(rng)) for _ in range(count)])


def _wrong_credentials(attacked: AttackedSite, each: int) -> None:
    """Send INITs that prove a key, with a credential that is not worth anything."""
    site, rng = attacked.site, attacked.rng
    right, wrong = site.authority, SmallAuthority(b"\x07" * 32)
    key, victim = rng.randbytes(32), site.clients["p0"]
    mine = public_key(key)
    credentials = [
        b"",
        rng.randbytes(200),
        wrong.client("p0", mine),  # of another authority
        victim.credential,  # of another key
        right.client("p0", mine, validity=Validity(0, 1)),  # expired
        right.client("p0", mine)[:-1] + b"\0",  # changed
    ]
    thieves = [
        RawClient(site, f"thief{number}", key, attacked.home.home, one)
        for number, one in enumerate(credentials)
    ]
    _over_time(attacked, [(rng.choice(thieves).init(), _anywhere(rng)) for _ in range(each)])
    attacked.site.run(15.0)


def _forged_unknowns(attacked: AttackedSite, each: int) -> None:
    """Tell a client that its server does not know it."""
    heard = [data for _, target, data in attacked.site.overheard if target == ("p0", 1)]
    head, rng = write_header(Header(Kind.UNKNOWN, 0))[:2], attacked.rng
    for _ in range(each):
        echoed = rng.choice(heard)[2:22] if rng.random() < 0.5 else rng.randbytes(20)
        attacked.site.on_datagram["p0"](head + echoed, attacked.home.home.address, 1)


def _forged_answers(attacked: AttackedSite, each: int) -> None:
    """Send datagrams of all kinds for the session of a client, sealed by nobody."""
    heard = [data for _, target, data in attacked.site.overheard if target == ("s0", 1)]
    rng = attacked.rng
    for _ in range(each):
        data = bytearray(rng.choice(heard))
        data[0] = data[0] & 0xF0 | rng.randrange(1, 6)
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        attacked.site.on_datagram["s0"](bytes(data), attacked.home.home.address, 1)


def _over_time(attacked: AttackedSite, batch: list[tuple[bytes, Address]]) -> None:
    """Send datagrams slowly: a flood would only be asked for cookies."""
    step = max(1, len(batch) // 100)
    for start in range(0, len(batch), step):
        attacked.send(attacked.home, batch[start : start + step])
        attacked.site.run(_SPAN_S / 100)


def _raw_client(attacked: AttackedSite, name: str, authority: SmallAuthority) -> RawClient:
    key = attacked.rng.randbytes(32)
    credential = authority.client(name, public_key(key))
    return RawClient(attacked.site, name, key, attacked.home.home, credential)


ATTACKS: dict[str, Callable[[AttackedSite, int], None]] = {
    "forged seals": _forged_seals,
    "replays": _replays,
    "replays at another server": _replays_at_another_server,
    "replayed inits": _replayed_inits,
    "stolen cookies": _stolen_cookies,
    "init flood": _init_flood,
    "wrong credentials": _wrong_credentials,
    "forged unknowns": _forged_unknowns,
    "forged answers": _forged_answers,
}
"""By name; each is given a site and how often."""
