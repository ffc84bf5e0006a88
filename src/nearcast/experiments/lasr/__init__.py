"""The experiment of the LASR paper: two edge nets, a cloud, and an offload.

Read ``testbed`` (who is where, and what everything costs), ``systems`` (LASR and the master-slave
baseline set up on it in virtual time), then ``trial`` (one run and what is counted in it). The same
with real processes: ``live_flow`` (a flow on a site of servers), ``live_master`` (the baseline),
``live`` (the trials of both).
"""
