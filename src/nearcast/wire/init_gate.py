"""What an INIT has to pass before a server computes a handshake, and after it."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from ipaddress import IPv6Address

from nearcast.wire.framing import MAC_BYTES, mac2_of
from nearcast.wire.settings import Address, RandomBytes

__all__ = ["CookieJar", "SeenKeys", "TokenBuckets", "owner_of", "prefix_of"]

_NO_MAC = bytes(MAC_BYTES)


def prefix_of(address: Address) -> str:
    """Return the network that a spoofed sender may choose its addresses from: /24 or /48."""
    host = address[0]
    if ":" not in host:
        return host.rpartition(".")[0] or host
    return _ipv6_prefix(host, 6)


def owner_of(address: Address) -> str:
    """Return what one proved sender has to itself: an IPv4 address, an IPv6 /64."""
    host = address[0]
    return host if ":" not in host else _ipv6_prefix(host, 8)


def _ipv6_prefix(host: str, size_bytes: int) -> str:
    try:
        return IPv6Address(host).packed[:size_bytes].hex()
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

    def has(self, name: str, now: float) -> bool:
        """Tell whether there is a token, without taking it."""
        return self._level(name, now) >= 1.0

    def take(self, name: str, now: float, tokens: float = 1.0) -> bool:
        """Take tokens; False when there is not even one. What is taken beyond is owed."""
        level = self._level(name, now)
        self._levels.pop(name, None)
        granted = level >= 1.0
        self._levels[name] = (level - tokens if granted else level, now)
        if len(self._levels) > self._limit:
            self._levels.popitem(last=False)
        return granted

    def _level(self, name: str, now: float) -> float:
        level, since = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + max(0.0, now - since) * self._rate_per_s)


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

    def cookie_in(self, init: bytes, address: Address, now: float) -> bytes | None:
        """Return the cookie by which an INIT's second MAC was made: empty without such a MAC.

        None: the cookie was not made for this address, or is too old.
        """
        covered, mac2 = init[:-MAC_BYTES], init[-MAC_BYTES:]
        if mac2 == _NO_MAC:
            return b""
        self._rotate(now)
        for secret in self._secrets:
            cookie = self._cookie(secret, address)
            if hmac.compare_digest(mac2, mac2_of(cookie, covered)):
                return cookie
        return None

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


class SeenKeys:
    """The ephemeral keys of the last INITs: each opens one session at most.

    A repetition of one that is forgotten does no harm, because nobody can confirm its session.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, key: bytes) -> None:
        """Remember a key; the oldest one is forgotten when there are too many."""
        self._keys[key] = None
        if len(self._keys) > self._limit:
            del self._keys[next(iter(self._keys))]
