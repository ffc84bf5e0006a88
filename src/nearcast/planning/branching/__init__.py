"""Exact homes of small scenarios (M1, M2) by branch and bound: their cost is not linear.

Read ``branch`` (the search, its loops in ``branch_kernels``), then ``ratio`` and ``connections``.
"""
