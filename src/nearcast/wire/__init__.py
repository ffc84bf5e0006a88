"""Sessions between clients and edge servers: Protobuf over UDP, sealed by Noise IK.

Everything here is a pure state machine: datagrams, the time and random bytes come in; datagrams
to send and events come out. Sockets, clocks and loops belong to the callers. `nearcast.proto`
documents the wire for implementations in other languages.
"""
