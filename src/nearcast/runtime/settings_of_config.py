"""The settings of a server's parts, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address

from msgspec import structs

from nearcast.broker.guard import GuardSettings
from nearcast.broker.notices import decode_entry
from nearcast.flow.load_loop import LoadSettings
from nearcast.runtime.config import ServerConfig
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.server.log_rows import PublicationRow
from nearcast.server.server_settings import ServerSettings
from nearcast.server.stream_targets import Capacity
from nearcast.spool.changes import LiveTopic
from nearcast.wire.message_class import with_classes
from nearcast.wire.publication import Origin

__all__ = ["event_log_settings", "group_interface", "settings_of", "spooled_rows"]


def event_log_settings(config: ServerConfig) -> EventLogSettings:
    """Return how a server's event log is written."""
    log = config.log
    return EventLogSettings(
        str(config.log_folder),
        config.id,
        segment_rows=log.segment_rows,
        segment_s=log.segment_s,
        keep_mb=log.keep_mb or None,
        keep_days=log.keep_days or None,
        files=log.enabled,
        kafka=config.kafka,
        backlog=str(config.data / "kafka-backlog"),
    )


def spooled_rows(topics: Mapping[str, LiveTopic], server: str) -> list[PublicationRow]:
    """Return rows of the publications that were processed here and are still in the spool.

    A server that starts sends them to Kafka once more: a crash may have taken the rows of what was
    acknowledged, and the spool has it. Kafka's readers know by its identity what they have.
    """
    rows = []
    for topic, live in topics.items():
        for record in live.records:
            try:
                one = decode_entry(topic, record)
            except ValueError:
                continue  # counted by the broker, as unreadable
            if one.origin is Origin.DIRECT:
                rows.append(
                    PublicationRow(
                        topic,
                        one.publisher,
                        one.received_us,
                        one.x_km,
                        one.y_km,
                        len(one.payload),
                        "publish",
                        one.sequence,
                        one.epoch,
                        True,
                        server,
                        one.payload,
                    )
                )
    return rows


def group_interface(config: ServerConfig) -> str:
    """Return the address of this machine from which its multicast group is told; empty: any."""
    if config.group is not None and config.group.interface:
        return config.group.interface
    try:
        host = IPv4Address(config.clients.host if config.clients is not None else "")
    except AddressValueError:
        return ""
    return "" if host.is_unspecified else str(host)


def settings_of(config: ServerConfig, manager: str, hung: frozenset[str]) -> ServerSettings:
    """Return the settings of a server.

    Parameters
    ----------
    manager
        The manager's id; empty: there is none.
    hung
        Processors that may not run in the loop, because they hung it before.
    """
    limits, processors = config.limits, config.processors
    return ServerSettings(
        config.id,
        manager,
        Capacity(
            float("inf") if limits.storage is None else limits.storage,
            float("inf") if limits.compute is None else limits.compute,
            limits.streams,
        ),
        inline_processors=frozenset(processors.inline) - hung,
        allowed_processors=None if config.role == "standalone" else processors.may_run,
        hung_processors=hung,
        net=config.net_path,
        flow_load=LoadSettings(**structs.asdict(config.flows)),
        guard=GuardSettings(budget_s=processors.budget_s, quarantine_s=processors.quarantine_s),
        retry_after_s=config.busy.retry_after_ms / 1e3,
        topic_limit=limits.topics,
        topic_idle_s=limits.topic_idle_s,
        stream_limit=limits.publishers_per_topic,
        stream_idle_s=limits.publisher_idle_s,
        takeover_s=limits.takeover_s,
        table_factor=limits.table_factor,
        classes=with_classes(config.classes),
    )
