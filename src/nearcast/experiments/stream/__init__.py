"""`nearcast bench stream`: from an event in Kafka to its alert in Kafka, by Spark and by a consumer.

Read ``load`` (events at a rate), ``alert_watch`` (when alerts come), ``subjects`` (what is measured)
and ``run``.
"""
