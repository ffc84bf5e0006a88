"""How zenoh peers find each other here: by the endpoints they are given, no other way."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["zenoh_config"]


def zenoh_config(zenoh: Any, **endpoints: str) -> Any:
    """Return the configuration of a peer that talks to the given endpoints only."""
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    for side, endpoint in endpoints.items():
        config.insert_json5(f"{side}/endpoints", json.dumps([endpoint]))
    return config
