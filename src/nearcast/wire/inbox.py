"""Notifications at the client: each is delivered once."""

from __future__ import annotations

from collections import OrderedDict
from operator import itemgetter
from typing import Any

from nearcast.wire.messages import Notify, NotifyFields
from nearcast.wire.notification import Notification
from nearcast.wire.replay_window import ReplayWindow

__all__ = ["Inbox"]

_WINDOW = 4_096
_STREAM_LIMIT = 4_096
_FIELDS = Notify.__struct_fields__
assert _FIELDS[3] == "sequence"
_stream_of = itemgetter(
    *map(_FIELDS.index, ("publisher", "topic", "epoch", "durable", "part")),
)


class Inbox:
    """Remembers the last 4,096 sequences per publisher, topic and epoch, in 512 bytes at most.

    The stream used longest ago is forgotten first, when there are more than 4,096.
    """

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[Any, ...], ReplayWindow] = OrderedDict()

    def accept(self, fields: NotifyFields, arrived_us: int) -> Notification | None:
        """Return the notification with these fields of a Notify, or None for a repetition.

        One from before the window is delivered and marked: it may be a repetition.
        """
        stream = _stream_of(fields)
        sequence = fields[3]
        window = self._streams.get(stream)
        if window is None:
            window = self._streams[stream] = ReplayWindow(_WINDOW)
            if len(self._streams) > _STREAM_LIMIT:
                self._streams.popitem(last=False)
        else:
            self._streams.move_to_end(stream)
        if window.take(sequence):
            return Notification(*fields, arrived_us)
        if window.is_too_old(sequence):
            return Notification(*fields, arrived_us, True)
        return None
