"""Scenarios from other people's files: social graphs, site maps and publication logs.

Read ``follows``, ``sites`` and ``publications``; ``sources`` and ``positions`` are what they share.
"""
