"""The published planners: RA, NS, LO, RELO, RELOC and OTOS.

Read ``reloc`` first, then ``assignment`` and ``assignment_kernels``, where the algorithms are.
"""
