"""The configuration as files: TOML in and out, and the keys that it names."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import tomli_w
from msgspec import inspect

from nearcast.errors import ConfigError
from nearcast.links.secret_file import write_secret
from nearcast.runtime.config import ManagerConfig, ServerConfig

__all__ = ["load_config", "read_key_file", "write_config"]

_ROLES: dict[str, type[ServerConfig] | type[ManagerConfig]] = {
    "edge": ServerConfig,
    "cloud": ServerConfig,
    "manager": ManagerConfig,
}
_AT_KEY = re.compile(r"(?P<what>.*) - at `\$?\.?(?P<key>.*)`$", re.DOTALL)


def load_config(path: Path) -> ServerConfig | ManagerConfig:
    """Return the configuration of a server; paths in it count from the file's folder.

    Raises
    ------
    ConfigError
        When the file cannot be read or says something that cannot be used.
    """
    content = _read_toml(path)
    role = content.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        said = "is missing" if role is None else f"cannot be {role!r}"
        _fail(path, "role", f"{said}; it is one of {', '.join(_ROLES)}")
    kind = _ROLES[role]
    _refuse_unknown(path, content, inspect.type_info(kind))
    folder = path.absolute().parent
    try:
        config = msgspec.convert(content, kind, dec_hook=lambda _, text: _to_path(folder, text))
    except msgspec.ValidationError as error:
        found = _AT_KEY.match(str(error))
        _fail(path, found["key"] if found else "", found["what"] if found else str(error))
    if isinstance(config, ServerConfig):
        for item in dataclasses.fields(config.wire):
            if not getattr(config.wire, item.name) > 0:
                _fail(path, f"wire.{item.name}", "must be above 0")
    read_key_file(config.key_file)
    return config


def write_config(path: Path, config: ServerConfig | ManagerConfig) -> None:
    """Write a configuration that `load_config` reads; values that are the defaults are left out.

    Only its owner may read it: options of Kafka have passwords.

    Raises
    ------
    ConfigError
        When an option has no form in TOML.
    OutputError
        When the file cannot be written.
    """
    try:
        text = tomli_w.dumps(_plain(config, path.absolute().parent))
    except TypeError as error:
        raise ConfigError(f"a value has no form in TOML: {error}") from None
    write_secret(path, text, sync=False)


def read_key_file(path: Path) -> bytes:
    """Return the private key that a file holds as 64 hex digits.

    Raises
    ------
    ConfigError
        When there is none.
    """
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"key file {path}: cannot be read: {error.strerror or error}") from None
    except UnicodeError:
        text = ""
    if not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise ConfigError(f"key file {path}: must hold 64 hex digits, and nothing else")
    return bytes.fromhex(text)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        _fail(path, "", f"cannot be read: {error.strerror or error}")
    except UnicodeError:
        _fail(path, "", "is not text in UTF-8")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        _fail(path, "", f"is not valid TOML: {error}")


def _refuse_unknown(path: Path, value: Any, info: inspect.Type, place: str = "") -> None:
    """Refuse unknown keys, with the nearest known one, and what is not a finite number."""
    if isinstance(value, float) and not math.isfinite(value):
        _fail(path, place, f"must be a finite number, not {value}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        _fail(path, place, "is too large a number")
    if isinstance(info, inspect.UnionType):
        for one in info.types:
            _refuse_unknown(path, value, one, place)
    elif isinstance(info, inspect.VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value, start=1):
            _refuse_unknown(path, item, info.item_type, f"{place}[{index}]")
    elif isinstance(info, inspect.StructType | inspect.DataclassType) and isinstance(value, dict):
        known = {item.name: item.type for item in info.fields}
        for key, item in value.items():
            inside = f"{place}.{key}" if place else key
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
                _fail(path, inside, f"no such key; the nearest is {near[0]!r}")
            _refuse_unknown(path, item, known[key], inside)
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_unknown(path, item, inspect.AnyType(), f"{place}.{key}")


def _to_path(folder: Path, text: object) -> Path:
    if not isinstance(text, str) or not text:
        raise ValueError(f"Expected a path, got {text!r}")
    return folder / text


def _fail(path: Path, key: str, message: str) -> NoReturn:
    raise ConfigError(f"{path}: {key}: {message}" if key else f"{path}: {message}")


def _plain(value: Any, folder: Path) -> Any:
    """Return what TOML can hold, without what is a default; paths relative to the folder."""
    if isinstance(value, Path):
        is_inside = value.is_relative_to(folder)
        return str(value.relative_to(folder) if is_inside else value)
    if isinstance(value, dict):
        return {key: _plain(item, folder) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, folder) for item in value]
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        info = inspect.type_info(type(value))
        assert isinstance(info, inspect.StructType | inspect.DataclassType)
        pairs = [(item, getattr(value, item.name)) for item in info.fields]
        return {
            item.name: _plain(content, folder)
            for item, content in pairs
            if item.required or content not in (item.default, None)
        }
    return value
