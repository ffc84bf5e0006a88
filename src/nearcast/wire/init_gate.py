"""What an INIT has to pass before a server computes a handshake, and after it."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from ipaddress import IPv6Address

from nearcast.wire.codec import Refused
from nearcast.wire.framing import MAC_BYTES, mac2_of
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["CookieJar", "InitClock", "TokenBuckets", "prefix_of"]


def prefix_of(address: Address) -> str:
    """Return the network that shares one budget of INITs: /24 for IPv4, /48 for IPv6."""
    host = address[0]
    if ":" not in host:
        return host.rpartition(".")[0] or host
    try:
        return IPv6Address(host).packed[:6].hex()
    except ValueError:
        return host


class TokenBuckets:
    """A bounded number of token buckets by name; the one used longest ago is forgotten first."""

    def __init__(self, rate_per_s: float, burst: float, limit: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._limit = limit
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, now: float) -> bool:
        """Take one token; False when the bucket is empty."""
        level, since = self._levels.pop(name, (self._burst, now))
        level = min(self._burst, level + max(0.0, now - since) * self._rate_per_s)
        granted = level >= 1.0
        self._levels[name] = (level - 1.0 if granted else level, now)
        if len(self._levels) > self._limit:
            self._levels.popitem(last=False)
        return granted


class CookieJar:
    """Cookies bound to an address, from a secret that changes; nothing is stored per client."""

    def __init__(self, random_bytes: RandomBytes, rotation_s: float) -> None:
        self._random_bytes = random_bytes
        self._rotation_s = rotation_s
        self._secrets = [random_bytes(32), random_bytes(32)]
        """The current secret and the one before."""
        self._changed: float | None = None

    def cookie_for(self, address: Address, now: float) -> bytes:
        """Return the cookie of an address."""
        self._rotate(now)
        return self._cookie(self._secrets[0], address)

    def accepts(self, init: bytes, address: Address, now: float) -> bool:
        """Tell whether the INIT's second MAC was made with a cookie of this address."""
        self._rotate(now)
        covered, mac2 = init[:-MAC_BYTES], init[-MAC_BYTES:]
        return any(
            hmac.compare_digest(mac2, mac2_of(self._cookie(secret, address), covered))
            for secret in self._secrets
        )

    def _rotate(self, now: float) -> None:
        if self._changed is None:
            self._changed = now
        age_s = now - self._changed
        if age_s >= self._rotation_s:
            # After a long rest the last secret is as old as the one before it: drop both.
            last = self._secrets[0] if age_s < 2 * self._rotation_s else self._random_bytes(32)
            self._secrets = [self._random_bytes(32), last]
            self._changed = now

    @staticmethod
    def _cookie(secret: bytes, address: Address) -> bytes:
        place = f"{address[0]} {address[1]}".encode()
        return hashlib.blake2b(place, key=secret, digest_size=MAC_BYTES).digest()


class InitClock:
    """The last INIT time of each static key: an INIT works once, and only soon after it was made.

    An entry is needed only while its time could still pass the clock check, so that the table
    is bounded by the INITs of that time.
    """

    def __init__(self, settings: WireSettings) -> None:
        self._skew_s = settings.clock_skew_s
        self._last_us: OrderedDict[bytes, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last_us)

    def check(self, static_key: bytes, time_us: int, now: float) -> None:
        """Refuse an INIT of the wrong time, or one no later than one seen before."""
        if abs(time_us / 1e6 - now) > self._skew_s:
            raise Refused("init_time")
        self._forget(now)
        if time_us <= self._last_us.get(static_key, (-1, 0.0))[0]:
            raise Refused("init_replayed")
        self._last_us.pop(static_key, None)
        self._last_us[static_key] = (time_us, now)

    def _forget(self, now: float) -> None:
        while self._last_us:
            key, (_, seen) = next(iter(self._last_us.items()))
            if now - seen <= 2 * self._skew_s:
                break
            del self._last_us[key]
