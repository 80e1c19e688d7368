# SPDX-License-Identifier: Apache-2.0
"""``completion``: shell completion scripts, and the completed names."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from threading import Timer
from typing import Any

import shtab

from placement_sched.cli.arguments import Commands, Parser, add_command
from placement_sched.cli.main import PROGRAM, make_parser, parse_arguments

#: Command that installs the script, by shell.
SHELLS = {
    "bash": "placement-sched completion bash > /etc/bash_completion.d/placement-sched",
    "zsh": "placement-sched completion zsh > /usr/share/zsh/vendor-completions/_placement-sched",
    "fish": "placement-sched completion fish > /etc/fish/completions/placement-sched.fish",
}
#: Functions of each shell that complete names of a kind. They pass the line up to the cursor to
#: this program.
_FUNCTIONS = {
    "bash": """\
_placement_sched_{kind}() {{
  placement-sched completion --names {kind} "${{COMP_LINE:0:COMP_POINT}}" 2>/dev/null
}}
""",
    "zsh": """\
_placement_sched_{kind}() {{
  compadd -- ${{(f)"$(placement-sched completion --names {kind} "$LBUFFER" 2>/dev/null)"}}
}}
""",
    "fish": """\
function _placement_sched_{kind}
  placement-sched completion --names {kind} (commandline -cp | string collect) 2>/dev/null
end
""",
}
#: bash splits words at colons, such as the colon of a URL: this function splits the line again.
_WHOLE_WORDS = """\
_placement_sched() {
  local line="${COMP_LINE:0:COMP_POINT}" COMP_WORDS COMP_CWORD
  read -ra COMP_WORDS <<< "$line"
  [[ "$line" == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_placement_sched
}
complete -o bashdefault -F _placement_sched placement-sched
"""
#: Kind of the names that an argument takes, by its placeholder.
_KINDS = {"FLAVOR": "flavors", "FLAVOR|REQUEST.json": "flavors", "HOST": "hosts"}
#: Maximum time until the server has sent the names, in seconds.
PATIENCE = 2.0


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        "print a completion script for bash, zsh or fish",
        run,
        epilog="The examples install the script, which reads flavors and hosts from the server.",
        with_nova_conf=None,
    )
    parser.add_examples(*(line.removeprefix(f"{parser.prog} ") for line in SHELLS.values()))
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell")
    parser.add_argument("--names", nargs=2, action=_PrintNames, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    shell: str = arguments.shell
    parser = make_parser((), with_all_commands=True)
    for _, command in iterate_commands(parser):
        for action in command._actions:  # noqa: SLF001 - argparse has no public list of its arguments
            if action.metavar in {"FILE", "DIR"}:
                completer: Any = shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY
                action.complete = completer  # type: ignore[attr-defined] # shtab reads it
            elif kind := _KINDS.get(str(action.metavar)):
                name = f"_placement_sched_{kind}"
                completer = {"bash": name, "zsh": name, "fish": f"({name})"}
                action.complete = completer  # type: ignore[attr-defined]
    functions = (_FUNCTIONS[shell].format(kind=kind) for kind in sorted(set(_KINDS.values())))
    script: str = shtab.complete(parser, shell=shell, preamble="".join(functions))
    sys.stdout.write(f"{script}\n{_WHOLE_WORDS if shell == 'bash' else ''}")
    return 0


def iterate_commands(parser: Parser, name: str = PROGRAM) -> Iterator[tuple[str, Parser]]:
    """Yield the program and each command and group, with their parsers."""
    yield name, parser
    for word, command in parser.commands.choices.items() if parser.commands else ():
        yield from iterate_commands(command, f"{name} {word}")


class _PrintNames(argparse.Action):
    """Action that prints the names of a kind for completion, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *values: Any) -> None:
        _, (kind, line), _ = values
        # Any failure completes nothing, as an error would appear inside the line.
        with suppress(Exception, SystemExit), redirect_stderr(StringIO()):
            sys.stdout.writelines(f"{name}\n" for name in find_names(kind, line))
        parser.exit()


def find_names(kind: str, line: str) -> list[str]:
    """Find the flavors or hosts that complete a line, within two seconds."""
    words = shlex.split(line)
    prefix = "" if line[-1:].isspace() else words.pop()
    begin = max(n for n, word in enumerate(words) if Path(word).name == PROGRAM)
    # The options of the command select the server. NAME stands for a missing name, because the
    # arguments may be invalid without it.
    arguments = parse_arguments([*words[begin + 1 :], prefix or "NAME"])
    # Imported only here, as the import takes longer than printing a script.
    client = import_module("placement_sched.cli.scheduler.scheduler_client")
    timer = Timer(PATIENCE, os._exit, [0])
    timer.daemon = True
    timer.start()
    try:
        with client.open_scheduler(arguments) as scheduler:
            if kind == "flavors":
                names = set(scheduler.list_flavor_names())
            else:
                query = [("search", prefix)] if prefix else []
                names = {row["host"] for row in scheduler.get("hosts", query=query)["hosts"]}
    finally:
        timer.cancel()
    return sorted(name for name in names if name.startswith(prefix))
