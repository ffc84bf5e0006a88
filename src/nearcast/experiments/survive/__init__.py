"""Whether a site keeps its promises: schedules of faults, attacks, bad input, kills, seeded bugs.

Read ``schedule`` (one seeded simulation), ``faults`` and ``checker`` first.
"""
