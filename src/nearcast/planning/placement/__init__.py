"""M3, broker placement: tables of pairs, the search, a quick bound, plans from homes alone."""
