"""What is going on: reports of vehicles gathered into bins, and alerts with their areas.

No import of the server, so that a Spark stage can use it too. Read ``report`` (what comes in),
``bins``, ``kinds`` (when a bin becomes an alert), ``plausibility`` and ``reputation`` (who is
believed), ``sightings`` (who could have seen it), ``congestion`` (slow traffic that nobody
reported) and ``event_broker`` (the assembly).
"""
