"""Gathers what running flows want done, now and once what they changed is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from nearcast.broker.requests import ProcessRequest
from nearcast.flow.flow_actions import FlowActions, FlowIncident
from nearcast.flow.messages import FlowMessage
from nearcast.wire.publication import Publication

__all__ = ["Effects"]


class Effects:
    """What has to be done at the end of a pass."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.servers: Collection[str] = frozenset({server})
        """Those of the orders."""
        self.local: deque[FlowMessage] = deque()
        """Messages of this server to itself."""
        self.publications: list[Publication] = []
        self.not_entitled = 0
        """Messages that their senders had no right to send."""
        self._sends: list[tuple[str, FlowMessage]] = []
        self._incidents: list[FlowIncident] = []
        self._requests: list[ProcessRequest] = []
        self._after_commit: list[Callable[[], None]] = []

    def send(self, server: str, message: FlowMessage) -> None:
        """Send a message to a server of the orders."""
        if server == self._server:
            self.local.append(message)
        elif server in self.servers:
            self._sends.append((server, message))

    def ask(self, request: ProcessRequest) -> None:
        """Have the host process do something."""
        self._requests.append(request)

    def incident(self, flow: str, component: str, event: str, detail: str) -> None:
        """Report something that an operator should know of."""
        self._incidents.append(FlowIncident(flow, component, event, detail))

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call something when all that was changed in this pass is durable."""
        self._after_commit.append(call)

    def take_after_commit(self) -> list[Callable[[], None]]:
        """Return what is to be called then."""
        calls, self._after_commit = self._after_commit, []
        return calls

    def take_actions(self) -> FlowActions:
        """Return what is to be done now, without anything to store."""
        sends, incidents, requests = self._sends, self._incidents, self._requests
        actions = FlowActions(sends, None, self.publications, incidents, requests)
        self._sends, self.publications, self._incidents, self._requests = [], [], [], []
        return actions
