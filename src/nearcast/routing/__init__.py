"""Locality-aware stream routing: messages find the component that has their index.

Read ``keys`` (the order of everything), ``index_mapping`` (which index a message gets), ``router``
(the Protocol, settings and counters), ``route_messages`` and ``route_actions`` (what goes between
peers, and to the overlay), then the parts of a LASR router: ``publisher``, ``holdings``,
``component`` (who takes a message), ``delegation`` (an original's side of a split or merge),
``replica`` (the other side), ``underloaded`` (how they find each other), and ``lasr``, which joins
them. ``master_slave`` is the baseline; ``overlay_node`` joins a router and an overlay.
"""
