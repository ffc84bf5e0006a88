"""The first bits of session indices, by which the kernel knows datagrams of sessions."""

from __future__ import annotations

from random import Random

from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.framing import Header, Kind, read_header, write_header
from nearcast.wire.session_index import first_word, index_prefix
from nearcast.wire.session_table import SessionTable
from nearcast.wire.settings import WireSettings

KEY = bytes(range(32))


def begins_as(key: bytes, datagram: bytes) -> bool:
    known = first_word(key)
    return int.from_bytes(datagram[:4], "big") & known.mask == known.value


def test_all_indices_of_a_server_begin_alike_and_others_hardly_ever_do() -> None:
    rng = Random(1)
    table = SessionTable(WireSettings(), index_prefix(KEY))
    indices = {table.new_index(rng.randbytes) for _ in range(1_000)}
    assert len(indices) > 990
    datagrams = [write_header(Header(Kind.SEALED, one)) for one in indices]
    assert all(begins_as(KEY, one) for one in datagrams)
    assert not any(begins_as(bytes(32), one) for one in datagrams)
    guessed = sum(begins_as(KEY, b"\x14\x00" + rng.randbytes(4)) for _ in range(100_000))
    assert 5 < guessed < 60  # 1 in 4,096
    assert not begins_as(KEY, write_header(Header(Kind.INIT, next(iter(indices)))))


def test_what_clients_send_in_sessions_is_known_also_after_a_restart() -> None:
    site = SimulatedSite(1)
    server = site.add_server("e1")
    client = site.add_client("car", "e1")
    site.is_overheard = True
    site.connect([client])
    site.run(1.0)
    server.kill()
    server.restart()
    site.run(10.0)
    sealed = [
        data
        for _, target, data in site.overheard
        if target == server.home.address and read_header(data).kind is Kind.SEALED
    ]
    assert len({data[2:6] for data in sealed}) == 2
    assert all(begins_as(server.key, data) for data in sealed)
