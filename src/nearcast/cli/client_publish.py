"""The work of ``nearcast client publish``: lines to publications, acknowledgements to lines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nearcast.cli.client_lines import print_line
from nearcast.errors import ConfigError, NearcastError, WireError
from nearcast.sdk.client_lines import PublicationLine
from nearcast.sdk.failures import NotAcknowledgedError

if TYPE_CHECKING:
    from nearcast.sdk.client import Client
    from nearcast.sdk.outcome import Receipt
    from nearcast.sdk.sync_client import SyncClient

__all__ = ["Batches", "Publisher"]

Batches = Iterable[list[tuple[int, PublicationLine]]]
"""Lines with their numbers, as `read_batches` yields them."""


@dataclass(slots=True)
class Publisher:
    """Publishes lines and counts what became of them."""

    topic: str | None
    """Of lines that name none."""
    durable: bool
    as_json: bool
    """Whether each acknowledged publication is printed."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Of all publications; those of a line come besides."""
    area: str | None = None
    """Of lines that name none."""
    valid_s: float | None = None
    """The same."""
    message_class: str = ""
    """The same."""
    published: int = 0
    acknowledged: int = 0
    _output_errors: list[OSError] = field(default_factory=list)

    def run(self, client: SyncClient, batches: Batches) -> None:
        """Publish until the lines end, or up to a bad one; then wait, and tell what is wrong.

        Raises
        ------
        ConfigError
            For a bad line, after those before it are safe.
        NotAcknowledgedError
            When something was not acknowledged in time.
        """
        problem: NearcastError | None = None
        try:
            with client:
                try:
                    self._publish(client, batches)
                except ConfigError as error:
                    problem = error
        except NotAcknowledgedError as error:
            problem = ConfigError(f"{problem}; {error}") if problem is not None else error
        if problem is not None:
            raise problem

    def _publish(self, client: SyncClient, batches: Batches) -> None:
        for batch in batches:
            # in one go: waking the client's thread costs more than a publication
            client.run(self._publish_batch(client.inner, batch))
            if self._output_errors:
                raise self._output_errors[0]

    async def _publish_batch(
        self, client: Client, batch: list[tuple[int, PublicationLine]]
    ) -> None:
        for number, line in batch:
            topic = line.topic or self.topic
            started_s = time.monotonic()
            try:
                if topic is None:
                    raise ConfigError("no topic; name one in the line or by --topic")
                receipt = await client.publish(
                    topic,
                    line.data(),
                    durable=self.durable if line.durable is None else line.durable,
                    position=line.position(client.degrees is not None),
                    attributes=self.attributes | (line.attributes or {}),
                    area=line.area or self.area,
                    valid_s=self.valid_s if line.valid_s is None else line.valid_s,
                    message_class=line.message_class or self.message_class,
                )
            except (ConfigError, WireError) as error:
                raise ConfigError(f"line {number}: {error}") from None
            self.published += 1
            receipt.when_done(partial(self._note, number, started_s, receipt))

    def _note(self, number: int, started_s: float, receipt: Receipt) -> None:
        """Count an outcome; in the client's thread, so that a script sees its line at once."""
        if receipt.error is not None:
            return
        self.acknowledged += 1
        if not self.as_json:
            return
        line = {
            "line": number,
            "topic": receipt.topic,
            "sequence": receipt.sequence,
            "durable": receipt.durable,
            "after_ms": round((time.monotonic() - started_s) * 1000, 3),
        }
        try:
            print_line(line)
        except OSError as error:  # the reader of our output went away
            self._output_errors.append(error)
