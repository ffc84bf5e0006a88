"""A whole site on one machine.

``layout`` writes its folder, ``processes`` runs its servers, ``live_site`` is both with health and
clients; ``swarm`` drives many clients and measures.
"""
