"""The experiment of the LASR paper in virtual time: two edge nets, a cloud, and an offload.

Read ``testbed`` (who is where, and what everything costs), ``systems`` (LASR and the master-slave
baseline set up on it), then ``trial`` (one run and what is counted in it).
"""
