"""Who is where at each second: made up, recorded, or driven by SUMO.

Read `moment` (what all movers give), then `synthetic`, `trace`, and `sumo` with `sumo_tools`.
"""
