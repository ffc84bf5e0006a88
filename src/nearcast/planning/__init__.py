"""Where topics and clients should live, and how far that is from the best possible.

Read ``request`` (the seam), ``solve`` (the assembly), ``registry`` (methods by name); then
``methods`` (the published planners), ``optimised`` with ``ratio``, ``connections`` and
``placement`` (search and bound of each model), ``exact`` with ``milp`` and ``branching``; last ``comparison`` and
``sizing``.
"""
