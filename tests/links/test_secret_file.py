"""Files of one owner: nobody else reads them, or has them written elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from nearcast.links.secret_file import write_secret


def test_a_draft_of_somebody_else_is_neither_followed_nor_used(tmp_path: Path) -> None:
    theirs, path = tmp_path / "theirs", tmp_path / "token"
    theirs.write_text("untouched")
    draft = tmp_path / f".token.{os.getpid()}"
    draft.symlink_to(theirs)
    write_secret(path, "secret")
    assert theirs.read_text() == "untouched"
    draft.touch(mode=0o666)
    with open(draft) as opened_before:
        write_secret(path, "another secret")
        assert opened_before.read() == ""
    assert path.read_text() == "another secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["theirs", "token"]
