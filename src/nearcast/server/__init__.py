"""The servers of a site as state machines: datagrams, mesh messages and commits in, outputs out.

No sockets, threads or clock: the shell in ``runtime`` and simulators drive the same objects. Read
``site_orders`` (what the manager tells a server), ``mesh_messages`` and ``peer_channels`` (how
servers talk), ``node`` (a broker among other servers; the cloud server is one), ``edge`` (a node
with clients) and ``manager``.
"""
