"""Benchmarks: each module has ``run()`` (numbers) and ``draw()`` (picture).

``plan_scale`` (seconds and memory against clients), ``gap`` (distance to the bound against
seconds), ``placement_gap`` (against proven optima), ``replanning`` (warm starts); of live servers
``live_delays``, ``echo_rate`` and, beside other brokers, the folder ``latency``.
"""
