"""Planning for M2, the delegation-ratio model: an anytime search and a proven bound.

Read ``state`` (what the search keeps up to date), ``workspace`` (how it is made), ``move_kernels`` (the price of a move),
``anneal_kernels`` (annealing and descent), ``search`` (the entry, from ``starts``), ``replan``
(after a small change), then ``bound``.
"""
