"""The gate for publications without acknowledgement: newer ones than before, gaps or not."""

from __future__ import annotations

from nearcast.broker.sequence_gate import Verdict, is_far_ahead, is_well_formed
from nearcast.wire.publication import Publication

__all__ = ["OnceGate"]


class OnceGate:
    """Epoch and sequence of each publisher's last one; of too many publishers the first is forgotten.

    Parameters
    ----------
    limit
        Publishers that are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._last)

    def judge(self, publication: Publication) -> tuple[Verdict, int | None]:
        """Return whether a publication may be taken (`note` it then), else the epoch in force."""
        epoch, sequence = self._last.get(publication.publisher, (-1, 0))
        if not is_well_formed(publication) or is_far_ahead(publication, epoch):
            return Verdict.MALFORMED, None
        if publication.epoch < epoch:
            return Verdict.STALE_EPOCH, epoch
        if (publication.epoch, publication.sequence) <= (epoch, sequence):
            return Verdict.DUPLICATE, None
        return Verdict.TAKEN, None

    def note(self, publication: Publication) -> None:
        """Note that a publication was taken."""
        self._last[publication.publisher] = (publication.epoch, publication.sequence)
        if len(self._last) > self._limit:
            del self._last[next(iter(self._last))]
