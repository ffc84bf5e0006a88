"""A whole site on one machine, or a site of one server.

``layout`` writes its folder, ``processes`` runs its servers, ``live_site`` is both with health and
clients; ``swarm`` drives many clients and measures.
``standalone`` runs one server without a manager, by the files of ``standalone_folder``.
"""
