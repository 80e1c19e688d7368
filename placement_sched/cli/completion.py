# SPDX-License-Identifier: Apache-2.0
"""``completion``: shell completion scripts."""

import argparse
import sys
from collections.abc import Iterator

import shtab

from placement_sched.cli.arguments import Commands
from placement_sched.cli.main import PROGRAM, make_parser

#: Command that installs the script, by shell.
SHELLS = {
    "bash": "placement-sched completion bash > /etc/bash_completion.d/placement-sched",
    "zsh": "placement-sched completion zsh > /usr/share/zsh/vendor-completions/_placement-sched",
    "fish": "placement-sched completion fish > /etc/fish/completions/placement-sched.fish",
}


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "print a completion script for bash, zsh or fish"
    parser = commands.add_parser(
        "completion",
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="\n".join(["to install it:", *(f"  {line}" for line in SHELLS.values())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    parser = make_parser((), whole=True)
    for _, command in all_commands(parser):
        for action in command._actions:  # noqa: SLF001 - argparse has no public list of them
            if action.metavar == "FILE":
                action.complete = shtab.FILE  # type: ignore[attr-defined] # shtab reads it
    script: str = shtab.complete(parser, shell=arguments.shell)
    sys.stdout.write(f"{script}\n")
    return 0


def all_commands(
    parser: argparse.ArgumentParser, name: str = PROGRAM
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command, group of commands and the program itself, with its parser."""
    yield name, parser
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for word, command in action.choices.items():
                yield from all_commands(command, f"{name} {word}")
