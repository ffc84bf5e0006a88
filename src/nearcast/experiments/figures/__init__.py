"""The figures of four papers, made anew: RELOC 2020 and 2021, placement 2022, LASR 2017.

Read ``figure`` (what a figure is), ``summary`` (means and intervals over seeds), then one family:
``reloc2020``, ``sigma_sweep``, ``spool_sweep``, ``region_sweep`` (2021, figures 14 to 16, on
``curves2021``), ``examples2021``, ``preliminary2021``, ``placement2022`` and ``lasr2017``. ``catalogue`` lists
them, ``reproduction`` runs them, ``page`` writes the report.
"""
