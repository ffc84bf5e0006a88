"""A ring of ordered keys over many peers: who is responsible for a key, and the way there.

Read `overlay` (the Protocol and what comes out of it), `nodes` (order on the ring), `oracle` (the
same answers from one sorted list).
"""
