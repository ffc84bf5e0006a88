"""Points and areas on a plane in kilometres, and the indexes that find one by the other.

Read ``distance`` and ``projection``; ``bounds`` (what a shape is), ``shapes``, ``polygon`` and
``corridor`` (with ``segments``); ``roads`` with ``sumo_net``; ``area`` (shape, heading, validity)
and ``area_text`` with ``wkt`` and ``corridor_text`` (how one is written); ``point_index`` (who is in an area),
``area_index`` with ``polygon_table`` (in which areas is a point) and ``coverage`` (which servers
an area concerns).
"""
