"""Vehicles in a city of edge servers: hand-overs, incidents, and whether the right ones hear.

Read `incidents` (what happens), `driving` (vehicles on a simulated site), `audit` (who should have
heard, by `brute_force`), `run`, then `page`.
"""
