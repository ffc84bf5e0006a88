"""What each metric of a server means; docs/site.md has the same table.

Counters that are not listed are shown too, with their name as the meaning.
"""

from __future__ import annotations

__all__ = ["COUNTERS", "GAUGES", "LOSSES"]

COUNTERS = {
    "publications": "Publications taken from clients here.",
    "notifications": "Notifications sent to clients here.",
    "forwarded_in": "Publications that other servers forwarded to this broker.",
    "forwarded_out": "Publications forwarded to the broker on another server.",
    "resumes": "Questions of homes for notifications that clients may have missed.",
    "notifications_replayed": "Notifications told again because of that.",
    "copies": "Publications copied to other brokers of a topic.",
    "streams_claimed": "Streams that this broker has won from others.",
    "visits": "Sessions of clients that publish here and have their home elsewhere.",
    "duplicates": "Repetitions that had no effect.",
    "processor_failed": "Messages at which a processor raised.",
    "processor_overrun": "Batches that took a processor longer than its budget.",
    "processor_quarantined": "Times that a processor was suspended.",
}
"""Shown from the start."""

LOSSES = {
    "busy": "Publications sent back under load; publishers send them again.",
    "streams_taken_over": "Streams processed here because their owner is away; it may have more.",
    "visits_refused": "Publications of visiting clients that are not processed here; sent again.",
    "states_not_merged": "Processors' states of other brokers that could not be used here.",
    "notifications_undelivered": "Notifications whose client has no session here any more.",
    "notifications_too_large": "Notifications that do not fit into a datagram.",
    "notifications_dropped": "Notifications given up because too many waited for a client.",
    "notifications_missed": "Messages that a client's resumed subscription missed: they were gone.",
    "resumes_refused": "Questions for missed notifications that were not taken.",
    "refused_publications": "Publications that their client had no right to, by reason.",
    "rate_limited": "Messages above what a client may send; it sends them again.",
    "subscriptions_refused": "Subscriptions that their client had no right to.",
    "topics_expired": "Topics that were given up because nobody used them.",
    "topics_refused": "Topics that cannot be managed as ordered.",
    "drops": "Datagrams from clients that were refused, by reason.",
    "send_drops": "Datagrams that the kernel did not take, by error.",
    "receive_errors": "Errors that the kernel reported instead of a datagram, by error.",
    "kernel_drops": "Datagrams of sessions that found their receive buffer full.",
    "strangers_dropped": "Datagrams of senders without a session that found theirs full.",
    "mesh_dropped": "Messages to other servers that were given up, because too many waited.",
    "mesh_link_drops": "Frames to other servers for which a link had no room; they are sent again.",
    "mesh_rejected": "Connections of others that were not accepted, by reason.",
    "mesh_rejected_unknown_server": "Frames of servers that the orders do not name.",
    "mesh_refused": "Messages from other servers that could not be read.",
    "copies_not_expected": "Copies of servers that turned out to be no brokers of the topic.",
    "mesh_not_vouched": "Clients of whom another server spoke without a credential that counts.",
    "mesh_not_allowed": "Wishes that another server passed on and their client has no right to.",
    "event_log_rows_dropped": "Rows that the event log lost.",
    "event_log_segments_removed": "Files of the event log removed as too old or too many.",
    "event_log_errors": "Times that the event log's disk refused.",
    "processor_killed": "Batches at which the process of the processors hung or died.",
    "processor_restarts": "Times that the process of the processors was replaced.",
    "processor_malformed": "Messages that a processor counted as unusable.",
    "processor_unprocessed": "Messages spooled only, because their processor was suspended.",
    "copies_put_off": "Copies not taken while the disk stalled; they are asked for afterwards.",
    "spool_damages": "Places of the spool that were durable once and were lost when it started.",
    "spool_unreadable": "Records of the spool that could not be read after a restart.",
    "http_failures": "Requests of operators whose answer failed.",
    "orders_not_saved": "Orders that could not be kept at once, for lack of room, say.",
    "internal_errors": "Bugs: events that the loop gave up; each is in the log.",
}
"""What was lost or given up; shown from the start, and under `losses` in the status."""

GAUGES = {
    "sessions": "Clients with a session here.",
    "sessions_half_open": "Sessions, among them, whose client has not answered yet.",
    "topics": "Topics with a broker here.",
    "topics_elsewhere": "Topics that other servers manage or managed without orders.",
    "publishers": "Publishers that brokers here remember, summed over topics.",
    "streams": "Pairs of topic and publisher whose server is remembered here.",
    "subscriptions": "Subscriptions, of clients anywhere, that brokers here know.",
    "handover_notifications": "Notifications kept for clients on their way here.",
    "mesh_waiting": "Messages that other servers have not acknowledged.",
    "storage_used": "Sum of the spool sizes, in messages.",
    "storage_limit": "Limit of storage_used.",
    "compute_used": "Sum of spool size x publishers.",
    "compute_limit": "Limit of compute_used.",
    "uncommitted_groups": "Groups of changes that are not yet on the disk.",
    "uncommitted_seconds": "How long the oldest of them has waited for the disk.",
    "event_log_rows_held": "Rows of the event log in memory.",
    "mesh_resent": "Messages to other servers that were sent again.",
    "mesh_links": "Links to other servers that work.",
    "mesh_links_down": "Other servers that cannot be reached.",
    "mesh_sent_bytes": "Sent over all links, sealed.",
    "mesh_received_bytes": "Received over all links, sealed.",
    "queue_age_seconds": "How long the last datagram waited in the kernel.",
    "loop_lag_seconds": "How late the event loop was last.",
    "spool_messages": "Messages in the spool of each of the largest topics.",
    "spool_bytes": "Bytes of payload in the spool of each of the largest topics.",
}
