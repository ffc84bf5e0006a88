"""The mesh over Zenoh, on loopback; senders repeat, as channels do, until something arrives."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nearcast.errors import ConfigError
from nearcast.links.zenoh_mesh import MeshTls, ZenohMesh
from nearcast.testing.ports import closed_port


class Listener:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.changed = asyncio.Event()

    def __call__(self, sender: str, data: bytes) -> None:
        self.got.append((sender, data))
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


async def repeat_until_heard(sender: ZenohMesh, to: str, data: bytes, listener: Listener) -> None:
    async with asyncio.timeout(60):
        while not any(got == data for _, got in listener.got):
            sender.send(to, data)
            listener.changed.clear()
            try:
                async with asyncio.timeout(0.05):
                    await listener.changed.wait()
            except TimeoutError:
                continue


def test_peers_find_each_other_in_any_order_and_again_after_a_restart() -> None:
    async def main() -> None:
        ports = closed_port(), closed_port()
        heard_one, heard_two = Listener(), Listener()
        # the id has signs that mean something to Zenoh
        one = ZenohMesh("e/1*", f"tcp/127.0.0.1:{ports[0]}", [f"tcp/127.0.0.1:{ports[1]}"])
        await one.start(heard_one)
        one.send("e2", b"may be lost: nobody is there yet")
        two = ZenohMesh("e2", f"tcp/127.0.0.1:{ports[1]}")
        await two.start(heard_two)
        await repeat_until_heard(one, "e2", b"hello", heard_two)
        await repeat_until_heard(two, "e/1*", b"and back", heard_one)
        assert heard_two.got[-1] == ("e/1*", b"hello")
        assert heard_one.got[-1] == ("e2", b"and back")

        large = bytes(range(256)) * 8_192
        one.send("e2", large)
        await heard_two.until(lambda: heard_two.got[-1][1] == large)

        await two.close()
        one.send("e2", b"may be lost: it is away")
        heard_again = Listener()
        again = ZenohMesh("e2", f"tcp/127.0.0.1:{ports[1]}")
        await again.start(heard_again)
        await repeat_until_heard(one, "e2", b"welcome back", heard_again)
        assert heard_again.got[-1] == ("e/1*", b"welcome back")
        assert large not in {data for _, data in heard_again.got}
        for mesh in (again, one, one):
            await mesh.close()
        one.send("e2", b"after the end")

    asyncio.run(main())


def test_a_burst_arrives_whole_and_in_order() -> None:
    async def main() -> None:
        ports = closed_port(), closed_port()
        heard = Listener()
        two = ZenohMesh("e2", f"tcp/127.0.0.1:{ports[1]}")
        one = ZenohMesh("e1", f"tcp/127.0.0.1:{ports[0]}", [f"tcp/127.0.0.1:{ports[1]}"])
        await two.start(heard)
        await one.start(lambda *_: None)
        await repeat_until_heard(one, "e2", b"ready", heard)
        heard.got.clear()
        numbers = [str(number).encode() for number in range(200)]
        for number in numbers:
            one.send("e2", number)
        await heard.until(lambda: ("e1", numbers[-1]) in heard.got)
        assert [data for _, data in heard.got if data != b"ready"] == numbers
        await one.close()
        await two.close()

    asyncio.run(main())


def test_an_endpoint_that_cannot_be_had_is_named() -> None:
    async def main() -> None:
        endpoint = f"tcp/127.0.0.1:{closed_port()}"
        first = ZenohMesh("e1", endpoint)
        await first.start(lambda *_: None)
        with pytest.raises(ConfigError, match=f"cannot listen at {endpoint} .* uses the port"):
            await ZenohMesh("e2", endpoint).start(lambda *_: None)
        with pytest.raises(ConfigError, match=r"servers: Cannot assign requested address$"):
            await ZenohMesh("e2", "tcp/203.0.113.1:7447").start(lambda *_: None)
        await first.close()

    asyncio.run(main())


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("authority", self._key, is_authority=True)
        self._write("ca.pem", self._certificate)

    def files_for(self, name: str) -> MeshTls:
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(f"{name}.pem", self._sign(name, key, is_authority=False))
        (self.folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return MeshTls(
            self.folder / "ca.pem", self.folder / f"{name}.pem", self.folder / f"{name}.key"
        )

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool
    ) -> x509.Certificate:
        def common(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = (
            x509.CertificateBuilder()
            .subject_name(common(name))
            .issuer_name(common("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=36_500))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate) -> None:
        (self.folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def test_with_certificates_only_servers_of_the_same_authority_are_heard(tmp_path: Path) -> None:
    async def main() -> None:
        ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
        ports = [closed_port() for _ in range(3)]
        heard = Listener()
        target = f"tls/127.0.0.1:{ports[0]}"
        one = ZenohMesh("e1", target, tls=ours.files_for("e1"))
        stranger = ZenohMesh(
            "stranger", f"tls/127.0.0.1:{ports[1]}", [target], theirs.files_for("stranger")
        )
        friend = ZenohMesh("e2", f"tls/127.0.0.1:{ports[2]}", [target], ours.files_for("e2"))
        await one.start(heard)
        await stranger.start(lambda *_: None)
        for _ in range(10):
            stranger.send("e1", b"let me in")
            await asyncio.sleep(0)
        await friend.start(lambda *_: None)
        await repeat_until_heard(friend, "e1", b"hello", heard)
        stranger.send("e1", b"let me in")
        await repeat_until_heard(friend, "e1", b"again", heard)
        assert {sender for sender, _ in heard.got} == {"e2"}
        for mesh in (one, stranger, friend):
            await mesh.close()

    asyncio.run(main())
