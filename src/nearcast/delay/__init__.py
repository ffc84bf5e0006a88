"""The papers' cost models as array kernels: no formula exists anywhere else.

Read ``network`` (delays), then ``ratio`` (M2, 2021), ``connections`` (M1, 2020),
``placement`` (M3, 2022), and ``limits`` (what no method can beat).
"""
