"""The broker: a topic's spool and message processor. Events in, actions out; no clock, no I/O.

A message that comes from its publisher is spooled and processed; a message that another broker of
the topic copied here is spooled only. Read ``sequence_gate`` (once, in order), ``ownership`` and
``claims`` (one broker per stream), ``topic_spool``, ``notifications`` with ``audiences``,
``notices`` (what the log keeps of them) and ``replay`` (told again), ``processor`` (the seam for
users' code) with ``processing`` (runs one) and ``guard`` (lets it rest), ``requests`` (batches for
one that runs in another process), ``topic_processing``, ``settlement`` (what waits, and what
becomes of it), ``topic_broker`` and ``broker`` (the assembly) with ``actions``, ``broker_pass`` and
``broker_claims``. ``processors`` has those that are shipped; ``registry`` finds them by name.
``events`` stands by itself: what vehicles report, in bins, and alerts.
"""
