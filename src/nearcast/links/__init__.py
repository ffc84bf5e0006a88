"""How bytes travel between machines: the clients' UDP socket and the mesh of servers.

Read ``udp`` (datagrams of clients), ``mesh`` (the seam between servers) with ``memory_mesh`` (in
one process) and ``tcp_mesh`` (in production: ``mesh_connection``, ``mesh_peer``, ``mesh_acceptor``
under it), ``delay_line`` and ``emulated_mesh`` (distances that
this machine does not have), ``tied_process`` (processes that end with this one).
"""
