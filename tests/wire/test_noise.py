"""The handshake against public test vectors and an independent implementation."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from noise.connection import Keypair, NoiseConnection

from nearcast.wire.noise import InitiatorHandshake, NoiseError, ResponderHandshake, public_key


@dataclass(frozen=True)
class Vector:
    prologue: str
    init_static: str
    init_ephemeral: str
    resp_static: str
    resp_public: str
    resp_ephemeral: str
    handshake_hash: str | None
    messages: tuple[tuple[str, str], ...]
    """Payload and ciphertext in turns, the initiator first."""


# Facts: Noise_IK_25519_AESGCM_BLAKE2b in the public vector files of the cacophony project (as
# kept in mcginty/snow, tests/vectors/cacophony.txt) and of snow (tests/vectors/snow.txt).
CACOPHONY = Vector(
    prologue="4a6f686e2047616c74",
    init_static="e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
    init_ephemeral="893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
    resp_static="4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
    resp_public="31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62",
    resp_ephemeral="bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
    handshake_hash=(
        "8ddf8b582c496c745188bfa839b17d70be1682160af9276158d921816b249350"
        "4976f76644607e07f2c260273c73c4d7e97607e76a838fe1ce3d0f60ee4ada50"
    ),
    messages=(
        (
            "4c756477696720766f6e204d69736573",
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
            "10ade309f400533fbc81fb0e8b55288091ab5fe35d8c3d5033dbec503bcfa062"
            "69d8692447295ef3f3f47a1d6e6048bc4889db4631c5f5d18d37edd34e113a66"
            "4e2eb59ac55371831af42186f54915eb",
        ),
        (
            "4d757272617920526f746862617264",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
            "61923da61bbe936aa0e52e679c8a0341ab3e9ebca061b0423d0758f1c92d86",
        ),
        (
            "462e20412e20486179656b",
            "76c378c26ad0616d8b5d12fb30069a3d2006f09c736d133b1b00e2",
        ),
        (
            "4361726c204d656e676572",
            "44256a9fc73f965bb05905cea2c7f42446fdaeaad4005e3bfd5363",
        ),
        (
            "4a65616e2d426170746973746520536179",
            "a760601455d420b671156c561657a8fdc110686208d9ef8f524ad3841f5718ffa9",
        ),
        (
            "457567656e2042f6686d20766f6e2042617765726b",
            "a718f0df83c0a5e0715f7212aff997d406a65f06660102a7f522d9d5dd8bbd711789825bd4",
        ),
    ),
)
SNOW = Vector(
    prologue=(
        "5468657265206973206e6f20726967687420616e642077726f6e672e2054686572652773206f6e6c79"
        "2066756e20616e6420626f72696e672e"
    ),
    init_static="cf931bd05310f3d8609ce50be37832f9b3ead67c983229c8f175d78d8255008a",
    init_ephemeral="05b4bdaf5e2a4a96f29055f91bb093ef6dff9d7fcbe8ce63caf49f68dcb19ed6",
    resp_static="23487dcb31d18a266a21720d8e75bf302a165ad012432d0f8a827bc4f8927ee9",
    resp_public="991b50e82bf3898612988c801a52dff09495d67b0436d64335a25c06a93c5f0c",
    resp_ephemeral="8557d06806f45c0de6c807b8de64e1c5f704a354fe6fdc3e600e56efe2e422df",
    handshake_hash=None,
    messages=(
        (
            "686e24e494cf80e16b178bdc2c6d23ae3b4f74841d20e9ec6499c82ab36ed311",
            "6688b1f635839650e53b7372e42467a484e24a4a7b3ee804ba3ccdbd3289722b"
            "3d4ea4ac959d149d5d2d9f63dee52f5b315aafb60010cbf783600eaaece59db8"
            "1b91bb0b08f778851d4f2b7fe2eda4a1c2edb4dcd752e21e7baf30da3a29d717"
            "6a29e388a29fa17affb7928c9d9059da54f45216fc0906769840f78dbe854420",
        ),
        (
            "99f1e6285fbb6c0d778925d50a19350f69a03a9326f769d9f485704a1df52df9",
            "690c779ff86620fef6cd99b7867e465b6b8a3180232b795fcc39cdf5b890b467"
            "320cf6ada20b4ae876b4793458e0d2ca532858f6dc34cf7c2fa3b042b0466d3f"
            "ebf986532328f06459e2c006960e37af",
        ),
        (
            "8761e2a7e3e965ecf3f89049668dcc1c5daf525b68a61ce1403e5abe5e7ed662",
            "188e63c86f9dd0ef8ac5a13c91f188c8a4826df3c33b0e9e55e43f354c49646a"
            "2795d637018968790c7ea646eb3bf68a",
        ),
        (
            "bcba33cd41e5b5b21d5421b0908f45060b435eb8128a0d01171eb091bf339885",
            "4f6b69e55ed6cd2ed21a686bac3c3e6659783ce27ec77b313141904c91724526"
            "b365fe75d7ae38fd31292af561867a4a",
        ),
    ),
)


def _pair(seed: int = 0) -> tuple[InitiatorHandshake, ResponderHandshake, bytes]:
    random_bytes = random.Random(seed).randbytes
    server = random_bytes(32)
    initiator = InitiatorHandshake(
        static=random_bytes(32),
        ephemeral=random_bytes(32),
        responder_static=public_key(server),
        prologue=b"p",
    )
    return initiator, ResponderHandshake(static=server, prologue=b"p"), random_bytes(32)


@pytest.mark.parametrize("vector", [CACOPHONY, SNOW], ids=["cacophony", "snow"])
def test_every_byte_equals_the_public_vector(vector: Vector) -> None:
    initiator = InitiatorHandshake(
        static=bytes.fromhex(vector.init_static),
        ephemeral=bytes.fromhex(vector.init_ephemeral),
        responder_static=bytes.fromhex(vector.resp_public),
        prologue=bytes.fromhex(vector.prologue),
    )
    responder = ResponderHandshake(
        static=bytes.fromhex(vector.resp_static), prologue=bytes.fromhex(vector.prologue)
    )
    exchange = [(bytes.fromhex(plain), bytes.fromhex(sealed)) for plain, sealed in vector.messages]

    assert initiator.write_first(exchange[0][0]) == exchange[0][1]
    assert responder.read_first(exchange[0][1]) == exchange[0][0]
    assert responder.initiator_static == public_key(bytes.fromhex(vector.init_static))
    ephemeral = bytes.fromhex(vector.resp_ephemeral)
    assert responder.write_second(exchange[1][0], ephemeral=ephemeral) == exchange[1][1]
    assert initiator.read_second(exchange[1][1]) == exchange[1][0]
    if vector.handshake_hash is not None:
        assert initiator._state.hash.hex() == vector.handshake_hash
    assert initiator._state.hash == responder._state.hash

    ciphers = initiator.split(), responder.split()
    for number, (plain, sealed) in enumerate(exchange[2:]):
        (send, _), (_, receive) = ciphers if number % 2 == 0 else ciphers[::-1]
        assert send.seal(number // 2, b"", plain) == sealed
        assert receive.open(number // 2, b"", sealed) == plain


@pytest.mark.parametrize("ours_begins", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_speaks_with_an_independent_implementation(seed: int, ours_begins: bool) -> None:
    random_bytes = random.Random(seed).randbytes
    client, server, ephemeral = (random_bytes(32) for _ in range(3))
    other = NoiseConnection.from_name(b"Noise_IK_25519_AESGCM_BLAKE2b")
    other.set_prologue(b"p")
    if ours_begins:
        other.set_as_responder()
        other.set_keypair_from_private_bytes(Keypair.STATIC, server)
        other.start_handshake()
        initiator = InitiatorHandshake(
            static=client,
            ephemeral=ephemeral,
            responder_static=public_key(server),
            prologue=b"p",
        )
        assert other.read_message(initiator.write_first(b"hello")) == b"hello"
        assert initiator.read_second(bytes(other.write_message(b"welcome"))) == b"welcome"
        send, receive = initiator.split()
    else:
        other.set_as_initiator()
        other.set_keypair_from_private_bytes(Keypair.STATIC, client)
        other.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, public_key(server))
        other.start_handshake()
        responder = ResponderHandshake(static=server, prologue=b"p")
        assert responder.read_first(bytes(other.write_message(b"hello"))) == b"hello"
        assert responder.initiator_static == public_key(client)
        assert other.read_message(responder.write_second(b"welcome", ephemeral=ephemeral)) == (
            b"welcome"
        )
        send, receive = responder.split()
    for counter in range(3):
        payload = random_bytes(counter * 100)
        assert other.decrypt(send.seal(counter, b"", payload)) == payload
        assert receive.open(counter, b"", other.encrypt(payload)) == payload


def test_any_changed_bit_of_a_handshake_is_noticed() -> None:
    first = _pair()[0].write_first(b"payload")
    for bit in range(0, len(first) * 8, 5):
        forged = bytearray(first)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(NoiseError):
            _pair()[1].read_first(bytes(forged))
    for length in range(len(first)):
        with pytest.raises(NoiseError):
            _pair()[1].read_first(first[:length])


def test_any_changed_bit_of_the_answer_is_noticed() -> None:
    initiator, responder, ephemeral = _pair()
    responder.read_first(initiator.write_first(b""))
    second = responder.write_second(b"payload", ephemeral=ephemeral)
    waiting = _pair()[0]
    waiting.write_first(b"")
    for position in range(len(second)):
        forged = second[:position] + bytes([second[position] ^ 4]) + second[position + 1 :]
        with pytest.raises(NoiseError):
            waiting.read_second(forged)
        with pytest.raises(NoiseError):
            waiting.read_second(second[:position])
    assert waiting.read_second(second) == b"payload"  # forgeries left nothing behind


def test_another_server_or_prologue_cannot_read_the_first_message() -> None:
    first = _pair()[0].write_first(b"payload")
    server = random.Random(0).randbytes(32)
    with pytest.raises(NoiseError):
        ResponderHandshake(static=bytes(31) + b"\x08", prologue=b"p").read_first(first)
    with pytest.raises(NoiseError):
        ResponderHandshake(static=server, prologue=b"q").read_first(first)


def test_a_key_of_low_order_is_refused() -> None:
    with pytest.raises(NoiseError):
        _pair()[1].read_first(bytes(200))
