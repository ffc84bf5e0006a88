"""`nearcast bench loop`: clients move, and the site plans itself anew while messages flow.

Read ``steady_load`` (what clients send and hear), ``moving`` (where they go), ``rounds`` (the story on
one site, for the demo too) and ``run`` (the bench: beside a plan made with full knowledge).
"""
