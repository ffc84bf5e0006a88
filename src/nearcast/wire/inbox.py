"""Notifications at the client: each is delivered once."""

from __future__ import annotations

from collections import OrderedDict

from nearcast.wire.actions import Notified
from nearcast.wire.messages import Notify
from nearcast.wire.replay_window import ReplayWindow

__all__ = ["Inbox"]

_WINDOW = 4_096
_STREAM_LIMIT = 4_096


class Inbox:
    """Remembers the last 4,096 sequences per publisher, topic and epoch, in 512 bytes each.

    The stream used longest ago is forgotten first, when there are more than 4,096.
    """

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[str, str, int, bool, int], ReplayWindow] = OrderedDict()

    def accept(self, notification: Notify) -> Notified | None:
        """Return the delivery, or None for a repetition.

        One from before the window is delivered and marked: it may be a repetition.
        """
        stream = (
            notification.publisher,
            notification.topic,
            notification.epoch,
            notification.durable,
            notification.part,
        )
        window = self._streams.get(stream)
        if window is None:
            window = self._streams[stream] = ReplayWindow(_WINDOW)
            if len(self._streams) > _STREAM_LIMIT:
                self._streams.popitem(last=False)
        else:
            self._streams.move_to_end(stream)
        if window.is_too_old(notification.sequence):
            return Notified(notification, is_copy=True)
        if not window.is_new(notification.sequence):
            return None
        window.mark(notification.sequence)
        return Notified(notification, is_copy=False)
