"""The commands that README, docs and help texts tell a user to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from nearcast.cli.main import nearcast

__all__ = ["PAGES", "in_help", "in_pages", "in_sentences", "leaves", "with_verb"]

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def in_pages() -> list[str]:
    """Return the commands of all shell blocks, in order, without comments."""
    return [
        line.partition(" #")[0].strip()
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        if line.strip()
    ]


def in_sentences() -> list[str]:
    """Return what stands as a command in the text of a page, abbreviations and names included."""
    return list(
        dict.fromkeys(
            line
            for page in PAGES
            for line in re.findall(
                r"`(nearcast [^`\n]+)`",
                re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL),
            )
        )
    )


def leaves(command: click.Command = nearcast, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Return all verbs, and those below them, with their path."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, *path, name)


def in_help() -> dict[str, list[str]]:
    """Return the commands in help texts, by verb; a line that ends in | goes on in the next."""
    shown = {}
    for path, command in leaves():
        text = CliRunner().invoke(command, ["--help"], terminal_width=200).output
        joined = re.sub(r"\|\n\s*", "| ", text)
        found = re.findall(r"^ {4,}((?:nearcast|echo|python|make) .*)$", joined, re.M)
        lines = [line.partition(" #")[0].strip() for line in found]
        if lines:
            shown[path] = [line for line in lines if not re.match(r"echo {2,}", line)]
    return shown


def with_verb(lines: list[str], *verbs: str) -> list[str]:
    """Return the commands with one of these verbs, each once."""
    return list(dict.fromkeys(line for line in lines if line.split()[1] in verbs))
