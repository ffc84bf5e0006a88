"""A ring of ordered keys over many peers: who is responsible for a key, and the way there.

Read `overlay` (the Protocol and what comes out of it), `nodes` (order on the ring); then the
distributed one from below: `messages`, `context`,
`ring` (DDLL's links) with `repair`, `fingers` with `table_updates` (Suzaku), `overlay_node` (all
of one key), `own_nodes` (all keys of a peer), `forwarding`, `lookups`, `multicast`, and `peer`,
which assembles them.
"""
