"""The command line: one file per verb. Read ``main`` first, then ``console``."""
