"""The shell of servers: sockets, threads, timers and files around the state machines.

Read ``config`` (what a server is told), ``serve`` (a server as a process), ``server`` (edge and
cloud) with ``spool_writer``, ``event_log`` and ``processor_host`` (what runs beside the loop),
``manager`` with its store and HTTP side, ``metrics``, ``logs`` and ``http_endpoint`` (what
operators see).
"""
