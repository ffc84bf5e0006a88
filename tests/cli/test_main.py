"""The command line as a whole: help, exit codes, start-up."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from cli.conftest import Run
from nearcast.cli import main


def test_help_names_every_verb(run: Run) -> None:
    answer = run("--help")
    assert answer.code == 0
    for verb in ("scenario", "plan", "evaluate", "compare", "size", "bench", "demo"):
        assert verb in answer.out


@pytest.mark.parametrize(
    "words",
    [
        ["scenario", "generate", "city"],
        ["scenario", "import"],
        ["scenario", "show"],
        ["plan"],
        ["evaluate"],
        ["compare"],
        ["size"],
        ["bench", "plan"],
        ["bench", "gap"],
        ["bench", "placement"],
        ["bench", "replan"],
        ["bench", "loop"],
        ["demo"],
    ],
)
def test_every_verb_explains_itself(run: Run, words: list[str]) -> None:
    answer = run(*words, "--help")
    assert answer.code == 0
    assert "Usage: nearcast" in answer.out
    assert "--json" in answer.out


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['nearcast', '--help']\n"
        "from nearcast.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "heavy = {'numba', 'scipy', 'matplotlib', 'pyarrow', 'numpy', 'rich', 'highspy'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["no-such-verb"],
        ["plan"],
        ["plan", "no-such-folder", "--out", "x"],
        ["plan", "no-such-folder", "--model", "nonsense", "--out", "x"],
        ["plan", "no-such-folder", "--method", "nonsense", "--out", "x"],
        ["plan", "no-such-folder", "--regions", "many", "--out", "x"],
        ["plan", "no-such-folder", "--time-limit", "-1", "--out", "x"],
        ["scenario", "show", "no-such-folder"],
        ["scenario", "generate", "city", "--clients", "0", "--out", "x"],
        ["scenario", "generate", "reloc2021", "--sigma", "-1", "--out", "x"],
        ["scenario", "import", "no-such-file", "--format", "follows", "--out", "x"],
        ["evaluate", "no-such-folder", "no-such-plan"],
        ["compare", "no-such-folder", "--methods", "nonsense"],
        ["size", "no-such-folder", "--target-ms", "1"],
    ],
)
def test_a_users_slip_gives_one_line_and_exit_code_2(run: Run, words: list[str]) -> None:
    answer = run(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "rror" in answer.err


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").out.startswith("nearcast 0.")


@pytest.mark.parametrize("code", [0, 1])
def test_a_verb_that_ends_with_a_code_ends_the_program_with_it(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verb() -> None:
        raise click.exceptions.Exit(code)

    monkeypatch.setattr(main, "nearcast", click.Command("nearcast", callback=verb))
    monkeypatch.setattr(sys, "argv", ["nearcast"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == code


def test_no_verb_has_an_option_twice() -> None:
    """Such a verb warns each time that it is called."""

    def look(command: click.Command, words: list[str]) -> int:
        opts = [one for param in command.params for one in (*param.opts, *param.secondary_opts)]
        assert sorted(set(opts)) == sorted(opts), " ".join(words)
        if not isinstance(command, click.Group):
            return 1
        ctx = click.Context(command)
        found = 0
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            found += look(inner, [*words, name])
        return found

    assert look(main.nearcast, ["nearcast"]) > 50
