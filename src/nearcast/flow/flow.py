"""A data flow: components connected by topics, as a file declares it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from nearcast.errors import ConfigError

__all__ = ["Component", "ContentMapping", "Flow", "Mapping", "read_flow"]


class ContentMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages that are alike meet at one replica: either a field or a function says which are."""

    field: str | None = None
    """Of the messages' JSON objects."""
    function: str | None = None
    """``module:name`` of a function of the user's."""


Mapping = Literal["shuffle"] | ContentMapping
"""Which messages must meet at one replica of a component: none (shuffle), or those alike."""


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A processor between topics."""

    processor: str
    inputs: tuple[str, ...]
    output: str
    """The topic that gets what the processor says; clients may subscribe to it as to any other."""
    options: dict[str, Any] = {}
    """What the processor is made with."""
    mapping: Mapping | None = None
    """A component that keeps a state needs one; messages of others are shuffled."""


class Flow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Components by name, and the topics that devices publish."""

    name: str
    sources: tuple[str, ...]
    components: dict[str, Component]

    def readers(self, topic: str) -> list[str]:
        """Return the components that read a topic."""
        return [name for name, one in self.components.items() if topic in one.inputs]


def read_flow(path: Path) -> Flow:
    """Return the flow of a TOML file.

    Raises
    ------
    ConfigError
        When the file cannot be read, is no TOML, or has keys or types that a flow does not have.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Flow)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # what the TOML parser raises
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
