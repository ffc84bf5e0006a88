"""The servers of a site as state machines: datagrams, mesh messages and commits in, outputs out.

No sockets, threads or clock: the shell in ``runtime`` and simulators drive the same objects. Read
``site_orders`` (what the manager tells a server), ``mesh_messages`` and ``peer_channels`` (how
servers talk), ``server`` (the assembly of an edge server; the cloud server is one without clients)
and ``manager``.
"""
