"""Processors by name, and processors that users plug in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nearcast.broker.processors.speeding import Speeding
from nearcast.broker.registry import make_processor, processor_names
from nearcast.errors import ProcessorError

PROCESSOR = '''
class Quiet:
    """Says nothing."""
    def __init__(self, volume=0):
        self.volume = volume
    def process(self, batch, spool):
        return []

NOT_ONE = dict
'''


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of a user's own with three processors, two of them broken."""
    (tmp_path / "my_processor.py").write_text(PROCESSOR)
    info = tmp_path / "my_processor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-processor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nearcast.processors]\nquiet = my_processor:Quiet\n"
        "missing = my_processor:Missing\nother = my_processor:NOT_ONE\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_processor", raising=False)


def test_the_shipped_processors_have_names() -> None:
    assert {"forward", "proximity", "speeding", "threshold"} <= set(processor_names())
    assert isinstance(make_processor("speeding", {"limit_kmh": 50}), Speeding)


@pytest.mark.usefixtures("plugged_in")
def test_a_processor_of_the_users_own_is_found() -> None:
    assert "quiet" in processor_names()
    for name in ("quiet", "my_processor:Quiet"):
        assert make_processor(name, {"volume": 3}).volume == 3  # type: ignore[attr-defined]


@pytest.mark.usefixtures("plugged_in")
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("nonsense", {}, "there is no processor 'nonsense'; there are: forward, "),
        ("missing", {}, "'missing' .* cannot be loaded"),
        ("my_processor:Missing", {}, "'my_processor:Missing' cannot be loaded: .*Missing"),
        ("no_such_module:Quiet", {}, "'no_such_module:Quiet' cannot be loaded: .*no_such_module"),
        (":Quiet", {}, "':Quiet' cannot be loaded"),
        ("my_processor:", {}, "'my_processor:' cannot be"),
        ("my_processor:Quiet", {"loud": 1}, "'my_processor:Quiet' cannot be made: .*loud"),
        ("other", {}, "'other' cannot be made: .*process"),
        ("quiet", {"loud": 1}, "'quiet' cannot be made: .*loud"),
        ("speeding", {}, "'speeding' cannot be made: .*limit_kmh"),
        ("speeding", {"limit_kmh": -1}, "limit_kmh > 0"),
    ],
)
def test_what_is_unknown_or_broken_is_a_clear_error(
    name: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ProcessorError, match=words):
        make_processor(name, options)
