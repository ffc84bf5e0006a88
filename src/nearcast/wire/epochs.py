"""The epoch of a client's publications: issued by its first server, raised where it is too low.

A client that starts without memory is given its epoch by a server, from that server's clock. A
broker that has seen a higher one of the same client refuses it and says which: the client goes on
above that, so that no clock has to be right.
"""

from __future__ import annotations

from nearcast.wire.publication import NUMBER_END

__all__ = ["Epochs"]


class Epochs:
    """By topic: what was taken of other topics under their epoch must not be taken again."""

    def __init__(self) -> None:
        self.issued = 0
        """By the first server; 0 before."""
        self._raised: dict[str, int] = {}

    def of(self, topic: str) -> int:
        """Return the epoch of a topic's publications."""
        return self._raised.get(topic, self.issued)

    def raise_above(self, topic: str, in_force: int, step: int = 1) -> bool:
        """Go on above an epoch; False when there is no need to, or it is impossible.

        `step` is how far above, at random: an earlier start of this client may have been told the
        same, and what is still under way from it must not be taken for ours.
        When the epoch in force is our own, what was refused came late from an earlier start of
        this client: what is in flight now must keep its epoch, or it would be taken twice.
        """
        if not self.of(topic) < in_force or in_force + step >= NUMBER_END:
            return False
        self._raised[topic] = in_force + step
        return True
