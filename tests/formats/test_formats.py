"""Files of this version's formats are read as they were meant; damaged and newer ones are refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from formats.make_fixtures import make_fixtures
from formats.readers import AUTHORITY, FIXTURES, READERS, read
from nearcast.errors import NearcastError
from nearcast.spool.frames import scan
from nearcast.trust.signed import Kind, SignedDocument
from nearcast.wire.codec import Refused

SQLITE = {"manager.db", "register.db"}


def copied(folder: Path) -> Path:
    """Return a copy of the fixtures that may be changed."""
    shutil.copytree(FIXTURES, folder / "changed")
    return folder / "changed"


def holds(found: Any, said: Any) -> bool:
    """Tell whether all that was said is found; later versions may know more fields."""
    if isinstance(said, dict):
        return isinstance(found, dict) and all(
            name in found and holds(found[name], one) for name, one in said.items()
        )
    if isinstance(said, list):
        return (
            isinstance(found, list)
            and len(found) >= len(said)
            and all(holds(*pair) for pair in zip(found, said, strict=False))
        )
    return bool(found == said)


@pytest.mark.parametrize("name", READERS)
def test_a_file_says_what_it_said(name: str, tmp_path: Path) -> None:
    said = json.loads((FIXTURES / "says.json").read_text())[name]
    assert holds(read(name, FIXTURES, tmp_path), said)


def test_the_script_makes_the_same_files(tmp_path: Path) -> None:
    make_fixtures(tmp_path)
    for path in FIXTURES.rglob("*"):
        if path.is_file() and path.name not in SQLITE:
            assert (tmp_path / path.relative_to(FIXTURES)).read_bytes() == path.read_bytes()


def flip(path: Path, at: int = -30) -> None:
    """Change one bit, near the end: the signature of signed documents is there."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def flip_hex(path: Path) -> None:
    digits = bytearray.fromhex(path.read_text())
    digits[-30] ^= 1
    path.write_text(digits.hex())


def flip_credential(path: Path) -> None:
    file = json.loads(path.read_text())
    file["credential"] = file["credential"][:-60] + "00" + file["credential"][-58:]
    path.write_text(json.dumps(file))


def flip_database(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * 4096 + data[8192:])


def flip_values(path: Path) -> None:
    file = json.loads(path.read_text())
    broken = {name: bytes(b ^ 0x55 for b in bytes.fromhex(one)) for name, one in file.items()}
    path.write_text(json.dumps({name: one.hex() for name, one in broken.items()}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def scribble(path: Path) -> None:
    path.write_text("what?")


DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    ("orders.msgpack", flip, "the signature is wrong"),
    ("orders.msgpack", cut, "not a signed document"),
    ("server.hex", flip_hex, "the signature is wrong"),
    ("server.hex", scribble, "must hold hex digits"),
    ("manager.hex", flip_hex, "the signature is wrong"),
    ("client.json", flip_credential, "the signature is wrong"),
    ("client.json", cut, r"client\.json: "),
    ("revocations.msgpack", flip, "the signature is wrong"),
    ("manager.db", flip_database, "no usable store of a manager"),
    ("register.db", flip_database, "no register of credentials"),
    ("mesh-messages.json", flip_values, "not a message of a server"),
    ("overlay-messages.json", flip_values, "not a message of the overlay"),
    ("wire-messages.json", flip_values, "malformed|truncated|invalid_field"),
    ("datagrams.json", flip_values, "init_mac1"),
    ("link.hex", flip_hex, "record 0: the seal does not match"),
]


@pytest.mark.parametrize(("name", "damage", "sentence"), DAMAGES)
def test_a_damaged_file_is_refused_with_one_sentence(
    name: str, damage: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    folder = copied(tmp_path)
    damage(folder / name)
    with pytest.raises((NearcastError, Refused), match=sentence) as refused:
        read(name, folder, tmp_path)
    assert "\n" not in str(refused.value)


def test_what_is_damaged_in_a_spool_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = max((folder / "spool").glob("segment-*"))
    flip(path, 300)
    found = read("spool", folder, tmp_path)
    assert [one["segment"] for one in found["damages"]] == [path.name]
    assert found["topics"]["road"]["positions"] == [["car-7", 3, 12]]


def newer_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()


def newer_credentials(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"from_the_future": 1}))


def newer_document(kind: str) -> Callable[[Path], None]:
    """Return what adds a field to a signed body, signed rightly."""

    def change(path: Path) -> None:
        is_hex = path.suffix == ".hex"
        data = bytes.fromhex(path.read_text()) if is_hex else path.read_bytes()
        body = msgspec.msgpack.decode(data, type=SignedDocument).body
        fields = [*msgspec.msgpack.decode(body), "from the future"]
        signed = AUTHORITY.key.sign(kind, msgspec.msgpack.encode(fields))
        path.write_bytes(signed.hex().encode() if is_hex else signed)

    return change


def newer_segment(path: Path) -> None:
    segment = max(path.glob("segment-*"))
    segment.rename(segment.with_suffix(".spool2"))


def newer_frame(path: Path) -> None:
    """Turn the last frame but the commit mark into one of a later kind."""
    segment = max(path.glob("segment-*"))
    data = segment.read_bytes()
    marker = int(segment.stem[-8:], 16)
    *_, last, _commit = scan(data, marker)
    tail = data[last.offset + 8 : last.end]
    tail = tail[:4] + b"\x09" + tail[5:]
    head = struct.pack("<II", marker, zlib.crc32(tail, marker))
    segment.write_bytes(data[: last.offset] + head + tail + data[last.end :])


NEWER: list[tuple[str, Callable[[Path], None], str]] = [
    ("manager.db", newer_database, "newer nearcast"),
    ("register.db", newer_database, "no register that this nearcast reads"),
    ("client.json", newer_credentials, "unknown field `from_the_future`"),
    ("server.hex", newer_document(Kind.SERVER), "ServerCredential: "),
    ("revocations.msgpack", newer_document(Kind.REVOCATIONS), "RevocationList: "),
    ("spool", newer_segment, "no file of a spool that this nearcast knows"),
    ("spool", newer_frame, "of kind 9 are of a newer nearcast"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), NEWER)
def test_a_newer_file_is_refused_with_one_sentence(
    name: str, change: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    folder = copied(tmp_path)
    change(folder / name)
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(NearcastError, match=sentence) as refused:
        read(name, folder, tmp_path)
    assert "\n" not in str(refused.value)
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
