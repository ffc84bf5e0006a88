"""Content filters: messages carry attributes, subscriptions say which they want.

Read ``attributes``, ``expression`` (what a filter is), ``filter_text`` (how it is written), and
``filter_index`` with ``interval_index`` (which of many filters a message matches).
"""
