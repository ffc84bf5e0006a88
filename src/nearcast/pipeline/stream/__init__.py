"""Structured Streaming: alerts, members and plan drift from what a site logs, while it logs.

Read ``alert_records`` (records into alerts), ``topic_events`` (what is remembered of a topic between
batches; no Spark), ``stream_settings``, ``sources`` (Kafka or the event log as streams),
``alerts_query`` and ``traffic_query`` (the two queries), ``traffic_tables`` and ``drift`` (what the
second one keeps), ``batch_files`` and ``alert_topic`` (each batch once on the disk and in Kafka),
``stream_folder`` (what belongs to one stream on the disk), ``stream_daemon`` (what workers fork
from), ``progress_lines`` and ``run`` (the assembly).
"""
