"""The mesh in one process, with losses and with distances."""

from __future__ import annotations

import asyncio

from nearcast.links.emulated_mesh import EmulatedMesh
from nearcast.links.memory_mesh import MemoryHub

Got = list[tuple[str, bytes]]


def test_messages_arrive_in_order_with_their_sender_and_not_at_servers_that_are_away() -> None:
    async def main() -> None:
        hub = MemoryHub(drop=lambda sender, receiver, data: data == b"lost")
        one, two = hub.link("e1"), hub.link("e2")
        got: Got = []
        await one.start(lambda sender, data: got.append((sender, data)))
        two.send("e1", b"before its start")
        await two.start(lambda *_: None)
        for data in (b"1", b"lost", b"2"):
            two.send("e1", data)
        two.send("nobody", b"x")
        assert got == []  # never inside the call of the sender
        await asyncio.sleep(0)
        assert got == [("e2", b"1"), ("e2", b"2")]
        await one.close()
        await one.close()
        two.send("e1", b"3")
        await asyncio.sleep(0)
        assert len(got) == 2

    asyncio.run(main())


def test_a_restarted_server_takes_the_place_of_its_last_life() -> None:
    async def main() -> None:
        hub = MemoryHub()
        sender, last, new = hub.link("e1"), hub.link("e2"), hub.link("e2")
        got: Got = []
        await sender.start(lambda *_: None)
        await last.start(lambda *_: None)
        await new.start(lambda sender, data: got.append((sender, data)))
        await last.close()
        sender.send("e2", b"x")
        await asyncio.sleep(0)
        assert got == [("e1", b"x")]

    asyncio.run(main())


def test_an_emulated_mesh_delivers_the_near_before_the_far() -> None:
    async def main() -> None:
        hub = MemoryHub()
        arrivals: list[str] = []
        all_there = asyncio.Event()

        def arrive(sender: str, data: bytes) -> None:
            arrivals.append(data.decode())
            if len(arrivals) == 3:
                all_there.set()

        far, near, here = hub.link("far"), hub.link("near"), hub.link("here")
        for link in (far, near, here):
            await link.start(arrive)
        mesh = EmulatedMesh(hub.link("e1"), {"far": 0.04, "near": 0.01})
        await mesh.start(lambda *_: None)
        for name in ("far", "near", "here"):
            mesh.send(name, name.encode())
        await all_there.wait()
        assert arrivals == ["here", "near", "far"]
        mesh.send("near", b"lost with the link")
        await mesh.close()
        mesh.send("here", b"after the end")
        await asyncio.sleep(0)
        assert len(arrivals) == 3

    asyncio.run(main())
