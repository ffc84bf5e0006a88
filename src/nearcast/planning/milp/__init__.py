"""Exact placement (M3) through HiGHS.

Read ``placement_model`` (the formulation), ``placement_proof`` (dividing and bounding),
``placement_solve`` (the entry), and ``highs``, the only home of the solver.
"""
