"""The server beside other brokers under one load: the case behind ``nearcast bench latency``.

Publishers, a processor over the last 100 messages of a topic, subscribers: the same workload, the
same function and one load process for every system. Read in this order: ``workload`` (what is
sent), ``window`` and ``processor`` (what is computed), ``pacing`` (open-loop sending), ``arrivals``
(what came back), the connections of each system (``nearcast_connections``, ``nats_protocol``,
``mqtt_protocol``, ``zenoh_connections``), ``load_worker`` (the load process), the systems
(``nearcast_server``, ``peers``, ``peer_packages``, ``systems``), ``rounds`` and ``verdicts``.

This file and those that the peers' workers import use the standard library alone.
"""
