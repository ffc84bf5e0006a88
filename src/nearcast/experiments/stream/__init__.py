"""`nearcast bench stream`: from an event in Kafka to its alert in Kafka, by Spark and by a consumer.

Read ``points`` (what is measured and what came of it), ``load`` (events at a rate), ``alert_watch``
(when alerts come), ``subjects`` (the programs under measurement, ``real_time_worker`` and
``echo_worker`` among them), ``site_path`` (from client to client of a site) and ``run``.
"""
