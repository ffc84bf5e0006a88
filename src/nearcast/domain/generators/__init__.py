"""Seeded scenario generators: the papers' settings and a city."""
