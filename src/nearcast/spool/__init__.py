"""The durable store behind brokers: groups of changes in, what is alive out after any crash.

A log of segment files. Each segment begins with a snapshot of all that is alive, so that recovery
reads one segment, at most two. Groups of changes follow; each is closed by a commit mark, and a
group counts as a whole or not at all. Records are bytes that the store does not look into (the
broker's ``notices`` makes them).

Read ``changes`` (what goes in and comes out), ``frames`` (bytes), ``segments`` (files and how far
they are durable), ``log`` (writing), ``recovery`` (reading after a crash), ``disk`` (the seam). Only ``real_disk`` does input and output;
``nearcast.testing.fake_disk`` is the disk of tests, with power cuts and bad sectors.
"""
