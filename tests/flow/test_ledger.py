"""What operators read of parts."""

from __future__ import annotations

import pytest

from nearcast.flow.ledger import describe_part
from nearcast.flow.messages import Part
from nearcast.routing.keys import INDEX_END


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (Part(None, 0, INDEX_END), "0..100 %"),
        (Part(None, INDEX_END // 2, 3 * INDEX_END // 4), "50..75 %"),
        (Part(("jp", "yrp"), 0, INDEX_END // 8), "0..12.5 % of jp.yrp"),
        (Part((), INDEX_END // 4, INDEX_END), "25..100 % of the cloud"),
    ],
)
def test_a_part_is_told_in_percent_as_in_the_table(part: Part, told: str) -> None:
    assert describe_part(part) == told
