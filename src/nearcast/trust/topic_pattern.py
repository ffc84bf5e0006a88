"""Topic patterns: ``+`` stands for one level, ``#`` at the end for all levels that follow."""

from __future__ import annotations

from nearcast.errors import ConfigError

__all__ = ["check_pattern", "is_pattern", "matches"]


def check_pattern(pattern: str) -> None:
    """Raise ConfigError when a pattern cannot match as its author meant it."""
    levels = pattern.split("/")
    if not pattern:
        raise ConfigError("a topic pattern is empty")
    if "#" in levels[:-1]:
        raise ConfigError(f"topic pattern {pattern!r}: '#' stands at the end only")
    for level in levels:
        if level not in ("+", "#") and ("+" in level or "#" in level):
            raise ConfigError(f"topic pattern {pattern!r}: '+' and '#' stand for whole levels")


def is_pattern(topic: str) -> bool:
    """Tell whether a topic holds a wildcard."""
    return "+" in topic or "#" in topic


def matches(pattern: str, topic: str) -> bool:
    """Tell whether a pattern matches a topic; ``traffic/#`` matches ``traffic`` as well.

    A topic may be a pattern itself: it matches when all that it stands for does.
    """
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if "#" in levels[: len(wanted)]:
            return False
        levels = levels[: len(wanted)]
    elif levels[-1] == "#":
        return False
    return len(wanted) == len(levels) and all(
        want in ("+", level) for want, level in zip(wanted, levels, strict=True)
    )
