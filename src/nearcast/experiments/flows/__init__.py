"""Flows on real servers: hand-overs under load, kills in the middle of them, scale-out."""
