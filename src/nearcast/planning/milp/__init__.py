"""Exact methods: placement through HiGHS, small problems of M1 and M2 by branch and bound."""
