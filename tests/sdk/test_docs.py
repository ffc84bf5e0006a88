"""What the page about the SDK shows works, and so do the examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import nearcast.sdk
from nearcast.sdk import SavedCursors, load_credentials, load_cursors, save_credentials
from sdk.edge import Edge

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def files(edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the credentials of a car and a sign."""
    for name in ("car", "sign"):
        save_credentials(edge.enrol(name), tmp_path / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_cursors_of_the_page_are_kept(files: Path) -> None:
    saved = _blocks("python")[-1]
    for _ in range(2):  # without the file, and with it
        exec(compile(saved, "sdk.md", "exec"), {})
    assert load_cursors(files / "sign.cursors") == SavedCursors(("alerts/#",))


def test_the_credential_file_of_the_page_is_one(tmp_path: Path) -> None:
    file = tmp_path / "car.json"
    file.touch(mode=0o600)
    file.write_text(_blocks("json")[0])
    assert load_credentials(file).home.address == ("127.0.0.1", 7000)


def test_the_example_programs_talk_to_each_other(edge: Edge, files: Path) -> None:
    programs = [str(ROOT / "examples" / name) for name in ("sdk_subscribe.py", "sdk_publish.py")]
    sign = [sys.executable, programs[0], "sign.json", "a", "--count", "3"]
    car = [sys.executable, programs[1], "car.json", "a", "--count", "3"]
    with subprocess.Popen(sign, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening to a\n"
        done = subprocess.run(
            [*car, "--interval-s", "0"], capture_output=True, text=True, check=True
        )
        heard = listener.stdout.read()
    assert done.stdout.splitlines() == [f"publication {n} is safe" for n in (1, 2, 3)]
    assert [line.split(" (")[0] for line in heard.splitlines()] == ['car: {"speed_kmh":50}'] * 3
    assert edge.site.positions == [(0.0, 0.0), (0.014, 0.0), (0.028, 0.0)]


def test_the_public_names_are_exact_and_load() -> None:
    assert sorted(nearcast.sdk.__all__) == sorted(nearcast.sdk._HOME_OF)
    for name in nearcast.sdk.__all__:
        assert getattr(nearcast.sdk, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        nearcast.sdk.nonsense  # noqa: B018
