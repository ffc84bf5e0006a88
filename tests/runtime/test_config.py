"""The configuration file: what it may say, and what is said about what it may not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from nearcast.domain.plan import Model
from nearcast.errors import ConfigError, OutputError
from nearcast.runtime.config import (
    BusyConfig,
    ClientsConfig,
    EmulationConfig,
    EnrolmentConfig,
    LimitsConfig,
    LogConfig,
    ManagerConfig,
    ManagerEntry,
    MeshConfig,
    ServerConfig,
    ServerEntry,
    SiteConfig,
    split_host_port,
)
from nearcast.runtime.config_files import load_config, read_key_file, write_config
from nearcast.runtime.settings_of_config import group_interface
from nearcast.server.processor_rules import ProcessorRule
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.settings import WireSettings

EDGE = """
role = "edge"
id = "e1"
data = "data/e1"
key_file = "e1.key"
authority = "0909090909090909090909090909090909090909090909090909090909090909"
credential_file = "e1.hex"
[clients]
port = 7001
[mesh.manager]
address = "10.0.0.1:7100"
credential = "070707"
[mesh]
listen = "127.0.0.1:7101"
"""
KEY = "0123456789abcdef" * 4
GROUP = "[group]\naddress = '239.192.7.1'\nport = "
MANAGER = ManagerEntry("10.0.0.1:7100", "070707")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "e1.key").write_text(f"{KEY}\n")
    return tmp_path


def load(folder: Path, text: str) -> ServerConfig | ManagerConfig:
    path = folder / "server.toml"
    path.write_text(text)
    return load_config(path)


def test_a_short_file_gets_defaults_and_paths_of_its_own_folder(folder: Path) -> None:
    config = load(folder, EDGE)
    assert isinstance(config, ServerConfig)
    assert config.data == folder / "data/e1"
    assert config.log_folder == folder / "data/e1/log"
    assert config.clients == ClientsConfig(7001, "127.0.0.1")
    assert config.wire == WireSettings()
    assert (config.busy.queue_age_ms, config.spool.segment_mb) == (50.0, 64.0)
    assert (config.limits.storage, config.emulation) == (None, None)
    assert config.mesh == MeshConfig("127.0.0.1:7101", MANAGER)
    assert read_key_file(config.key_file).hex() == KEY


def test_every_section_is_read(folder: Path) -> None:
    config = load(
        folder,
        EDGE
        + """
[http]
port = 9001
[limits]
storage = 1000
compute = 5e6
[spool]
segment_mb = 8
[log]
folder = "/var/log/e1"
enabled = false
[wire]
datagram_limit = 1400
[processors]
inline = ["forward", "speeding"]
budget_s = 0.01
[busy]
queue_age_ms = 20
[emulation]
factor = 10
delays_ms = { e2 = 0.5, cloud = 5 }
[group]
address = "239.192.7.1"
port = 7401
topics = ["alerts/#"]
""",
    )
    assert isinstance(config, ServerConfig)
    assert config.limits == LimitsConfig(1000.0, 5e6)
    assert config.log_folder == Path("/var/log/e1")
    assert config.wire == WireSettings(datagram_limit=1400)
    assert config.processors.inline == ("forward", "speeding")
    assert config.group == GroupSettings("239.192.7.1", 7401, topics=("alerts/#",))
    assert group_interface(config) == "127.0.0.1"
    assert config.emulation is not None
    assert config.emulation.delays_s == pytest.approx({"e2": 0.005, "cloud": 0.05})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("id =", "idd ="), "idd: no such key; the nearest is 'id'"),
        (("key_file", "keyfile"), "keyfile: no such key; the nearest is 'key_file'"),
        (("port = 7001", 'port = "7001"'), "clients.port: Expected `int`, got `str`"),
        (("port = 7001", "port = 70000"), "clients.port: Expected `int` <= 65535"),
        (("port = 7001", ""), "clients: Object missing required field `port`"),
        (('"data/e1"', "7"), "data: Expected a path, got 7"),
        (('"data/e1"', '""'), "data: Expected a path, got ''"),
        (('role = "edge"', 'role = "edg"'), "role: cannot be 'edg'; it is one of edge, cloud"),
        (('role = "edge"', ""), "role: is missing"),
        (('role = "edge"', "role = []"), "role: cannot be []"),
        (('role = "edge"', 'role = "cloud"'), "an edge server needs the section [clients]"),
        (("127.0.0.1:7101", "7101"), "mesh.listen: Expected `str` matching regex"),
        (("127.0.0.1:7101", "::1:7101"), "mesh.listen: Expected `str` matching regex"),
        (("127.0.0.1:7101", "tcp/h:7101"), "mesh.listen: Expected `str` matching regex"),
        (("127.0.0.1:7101", "h:70000"), "mesh: 'h:70000': there is no port 70000"),
        (("10.0.0.1:7100", "10.0.0.1"), "mesh.manager.address: Expected `str` matching regex"),
        (('"070707', '"07070'), "mesh.manager.credential: Expected `str` matching regex"),
        (("[mesh.manager]", "[busy]"), "busy.address: no such key"),
        (("[mesh]", "[wire]\ndatagram_limit = 9\n[mesh]"), "wire: datagram_limit must lie"),
        (("[mesh]", "[wire]\nreport_interval_s = 0\n[mesh]"), "wire.report_interval_s: must be"),
        (("[mesh]", f"{GROUP}7001\n[mesh]"), "[group] and [clients] need ports of their own"),
        (("[mesh]", f"{GROUP}80\n[mesh]"), "group: port 80 must lie between 1024 and 65535"),
        (
            ("[mesh]", f"{GROUP}7401\ntopics = ['a/#/b']\n[mesh]"),
            "group: topic pattern 'a/#/b': '#' stands at the end only",
        ),
        (
            ("[mesh]", "[group]\naddress = '10.0.0.1'\nport = 7401\n[mesh]"),
            "group: address '10.0.0.1' is no IPv4 multicast address, such as 239.192.7.1",
        ),
        (("[mesh]", "[wire]\nretries = 0\n[mesh]"), "wire.retries: no such key; the nearest is"),
        (("[mesh]", "[busy]\nqueue_age_ms = inf\n[mesh]"), "busy.queue_age_ms: must be a finite"),
        (("[mesh]", "[busy]\nqueue_age_ms = 0\n[mesh]"), "busy.queue_age_ms: Expected `float` > 0"),
        (("[mesh]", f"[busy]\nqueue_age_ms = 1{'0' * 400}\n[mesh]"), "is too large a number"),
        (("[mesh]", "[emulation.delays_ms]\ne2 = nan\n[mesh]"), "emulation.delays_ms.e2: must be"),
        (("[mesh]", "[emulation.delays_ms]\ne2 = -1\n[mesh]"), "Expected `float` >= 0.0"),
        (("[mesh]", "[mesh"), "is not valid TOML: "),
        (("e1.key", "none.key"), "none.key: cannot be read: No such file"),
        (("e1.key", "server.toml"), "must hold 64 hex digits"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(
    folder: Path, change: tuple[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)) as caught:
        load(folder, EDGE.replace(*change, 1))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_syntax_error_is_told_with_its_line(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"not valid TOML: .*line 4"):
        load(folder, EDGE.replace('"data/e1"', "data"))


def test_a_file_that_is_missing_or_no_text_is_told(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_config(folder / "none.toml")
    (folder / "server.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        load_config(folder / "server.toml")


def test_a_server_that_is_listed_twice_is_refused(folder: Path) -> None:
    text = """
role = "manager"
id = "manager"
data = "data"
token_file = "token"
key_file = "e1.key"
authority = "AUTHORITY"
credential_file = "manager.hex"
signing_key_file = "manager.signing"
mesh = { listen = "127.0.0.1:7100" }
site = { scenario = "scenario" }
[[servers]]
id = "e1"
mesh_host = "10.0.0.1"
mesh_port = 7101
credential_file = "e1.hex"
[[servers]]
id = "e1"
mesh_host = "10.0.0.2"
mesh_port = 7101
credential_file = "e2.hex"
""".replace("AUTHORITY", "09" * 32)
    with pytest.raises(ConfigError, match="server 'e1' is listed twice"):
        load(folder, text)
    with pytest.raises(
        ConfigError, match=r"servers\[2\]\.hots: no such key; the nearest is 'host'"
    ):
        load(folder, text + 'hots = "h"')
    other = text.replace('"e1"', '"e2"', 1)
    assert isinstance(load(folder, other), ManagerConfig)
    with pytest.raises(ConfigError, match=r"enrolment: topic pattern '#/a': '#' stands at the end"):
        load(folder, other.replace("[[servers]]", '[enrolment]\npublish = ["#/a"]\n[[servers]]', 1))
    with pytest.raises(ConfigError, match=r"servers\[1\]: Object missing required field"):
        load(folder, other.replace('mesh_host = "10.0.0.2"', ""))
    with pytest.raises(ConfigError, match=r"manager itself has no section \[mesh.manager\]"):
        load(
            folder,
            other.replace(
                'listen = "127.0.0.1:7100"',
                f'listen = "h:1", manager = {{ address = "h:2", credential = "{KEY}" }}',
            ),
        )


def test_a_server_without_its_manager_is_refused(folder: Path) -> None:
    begin, _, rest = EDGE.partition("[mesh.manager]")
    with pytest.raises(ConfigError, match=r"needs the section \[mesh.manager\]"):
        load(folder, begin + rest[rest.index("[mesh]") :])


def test_hosts_and_ports_are_told_apart() -> None:
    assert split_host_port("127.0.0.1:7100") == ("127.0.0.1", 7100)
    assert split_host_port("[::1]:0") == ("::1", 0)
    assert split_host_port("edge-1.example:65535") == ("edge-1.example", 65_535)


def test_what_is_written_is_read_again(folder: Path) -> None:
    edge = ServerConfig(
        "edge",
        'e"1\\',
        folder / "data",
        folder / "e1.key",
        KEY,
        folder / "e1.hex",
        "jp.jose.yrp",
        MeshConfig("[::1]:7101", MANAGER),
        ClientsConfig(0, "::"),
        limits=LimitsConfig(storage=1e22),
        log=LogConfig(Path("/elsewhere"), enabled=False),
        wire=WireSettings(datagram_limit=1400, longest_retry_s=1e-7),
        busy=BusyConfig(retry_after_ms=3.5),
        emulation=EmulationConfig(delays_ms={"e 2": 0.5, "é\x7f\n": 5.0}),
    )
    manager = ManagerConfig(
        "manager",
        "m",
        folder / "m",
        folder / "e1.key",
        KEY,
        folder / "m.hex",
        folder / "m.signing",
        MeshConfig("127.0.0.1:7100"),
        SiteConfig(
            folder / "scenario",
            model=Model.PLACEMENT,
            processors=(
                ProcessorRule("a/+", "threshold", {"limit": 3, "rows": [{"a": [1.5]}]}),
                ProcessorRule("#", notify_after_sync=True),
            ),
        ),
        (
            ServerEntry("e1", "127.0.0.1", 7101, folder / "e1.hex", "127.0.0.1", 7001),
            ServerEntry("cloud", "cloud.example", 7102, folder / "cloud.hex"),
        ),
        folder / "token",
        enrolment=EnrolmentConfig(("a/#",), ("b",), topics=3),
    )
    path = folder / "server.toml"
    for config in (edge, manager):
        write_config(path, config)
        assert load_config(path) == config
        assert "segment_mb" not in tomllib.loads(path.read_text())
    assert str(folder) not in path.read_text()
    with pytest.raises(OutputError, match="cannot be written"):
        write_config(folder / "no" / "server.toml", edge)


def test_a_value_that_toml_has_not_is_refused(folder: Path) -> None:
    site = SiteConfig(folder, processors=(ProcessorRule("#", "x", {"nothing": [None]}),))
    config = ManagerConfig(
        *("manager", "m", folder, folder / "e1.key", KEY, folder, folder),
        *(MeshConfig("h:1"), site, ()),
        token_file=folder,
    )
    with pytest.raises(ConfigError, match=r"no form in TOML: .*None"):
        write_config(folder / "server.toml", config)
    assert not (folder / "server.toml").exists()


def test_a_configuration_cannot_be_changed(folder: Path) -> None:
    config = load(folder, EDGE)
    with pytest.raises(AttributeError):
        config.id = "e2"  # type: ignore[misc]
    assert msgspec.structs.replace(config, id="e2").id == "e2"
