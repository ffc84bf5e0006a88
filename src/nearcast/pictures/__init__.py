"""Pictures and the report page: the only home of matplotlib.

Every drawing function is pure and returns a ``Figure``; ``style.save_figure`` writes it.
"""
