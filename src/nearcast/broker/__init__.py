"""The broker: a topic's spool and message processor. Events in, actions out; no clock, no I/O.

A message that comes from its publisher is spooled and processed; a message that another broker of
the topic copied here is spooled only. Read ``messages``, ``sequence_gate`` (once, in order),
``topic_spool``, ``notifications`` with ``audiences``, ``processor`` (the seam for users' code) with
``guard`` and ``processing`` (isolation), ``actions``, ``topic_settings``, ``topic_broker`` and
``broker`` (the assembly). ``processors`` has those that are shipped; ``registry`` finds them by name.
"""
