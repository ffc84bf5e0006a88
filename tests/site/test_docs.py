"""The page about sites tells the truth about keys, defaults and processors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import NODEFAULT, inspect

from nearcast.broker.notifications import InCircle
from nearcast.broker.topic_spool import TopicSpool
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.runtime import config
from nearcast.server.processor_rules import ProcessorRule
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.message_class import MessageClass
from nearcast.wire.publication import Publication
from nearcast.wire.settings import WireSettings

PAGE = (Path(__file__).parents[2] / "docs" / "site.md").read_text()
SECTIONS = {
    "[mesh]": config.MeshConfig,
    "[mesh.manager]": config.ManagerEntry,
    "[http]": config.HttpConfig,
    "[clients]": config.ClientsConfig,
    "[group]": GroupSettings,
    "[limits]": config.LimitsConfig,
    "[flows]": config.FlowsConfig,
    "[spool]": config.SpoolConfig,
    "[log]": config.LogConfig,
    "[kafka]": KafkaSettings,
    "[processors]": config.ProcessorsConfig,
    "[busy]": config.BusyConfig,
    "[emulation]": config.EmulationConfig,
    "[wire]": WireSettings,
    "[classes.NAME]": MessageClass,
    "[enrolment]": config.EnrolmentConfig,
    "[site]": config.SiteConfig,
    "[[site.processors]]": ProcessorRule,
    "[[servers]]": config.ServerEntry,
}


def _told(section: str) -> dict[str, str]:
    """Return the keys and defaults that the page has for a section."""
    (part,) = re.findall(rf"^### {re.escape(section)}[^\n]*\n(.*?)(?=^##)", PAGE, re.M | re.S)
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.M))


def _shown(field: inspect.Field) -> str:
    if field.required:
        return "-"
    default: Any = None if field.default is NODEFAULT else field.default
    if default is None or default in ("", ()):
        return "none"
    if isinstance(default, bool | int | float | tuple):
        return f"`{json.dumps(default)}`"
    return f"`{default}`"


@pytest.mark.parametrize("section", SECTIONS)
def test_keys_and_defaults_are_those_of_the_code(section: str) -> None:
    info = inspect.type_info(SECTIONS[section])
    assert isinstance(info, inspect.StructType | inspect.DataclassType)
    assert _told(section) == {field.name: _shown(field) for field in info.fields}


def test_every_section_of_a_configuration_is_told() -> None:
    for kind in (config.ServerConfig, config.ManagerConfig):
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        plain = {**_told("all servers"), **_told("manager only")}
        for field in info.fields:
            name = field.name
            told = {f"[{name}]", f"[[{name}]]", f"[{name}.NAME]"}
            assert name in plain or SECTIONS.keys() & told


def test_the_processor_of_the_page_works() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict[str, Any] = {}
    exec(source, names)
    spool = TopicSpool(10)
    for payload in (b"sun", b"ice"):
        spool.append(Publication("road", "car", 1, 1, 0, 0, 2.0, 3.0, payload))
    batch = list(spool.view())
    (told,) = names["IceWarning"](radius_km=4.0).process(batch, spool.view())
    assert (told.payload, told.audience) == (b"ice ahead", InCircle(2.0, 3.0, 4.0))
    assert told.cause is batch[1]
