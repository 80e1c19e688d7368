# SPDX-License-Identifier: Apache-2.0
"""The commands that pages and messages name exist and have valid options."""

import ast
import re
import shlex
from collections.abc import Iterator

import pytest

from placement_sched.cli.arguments import Parser
from placement_sched.cli.main import make_parser
from tests.support.repository import PACKAGE

PROGRAM_NAME = "placement-sched "
CONSOLE_FOLDER = PACKAGE / "extensions" / "console"
#: Words that follow the program's name in sentences and are not commands.
WORDS_WITHOUT_COMMAND = {
    "from",
    "server",
    "serves",
    "itself",
    "X",
    "removed",
}  # X: an inserted value
#: A word of a command, without the punctuation of the sentence.
COMMAND_WORD_PATTERN = re.compile(r"[\w./{}=*:-]*\w")


def find_commands_in_templates() -> Iterator[tuple[str, str]]:
    """Yield the commands of templates and scripts, which are complete."""
    for path in sorted([*CONSOLE_FOLDER.rglob("*.html"), *CONSOLE_FOLDER.rglob("*.js")]):
        text = re.sub(r"\{\{.*?\}\}", "X", path.read_text("utf-8"))
        for found in re.finditer(rf"{PROGRAM_NAME}[^<\"`\n]*", text):
            yield path.name, found.group()


def find_commands_in_modules() -> Iterator[tuple[str, str]]:
    """Yield the strings of the package from the program's name to their end."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for text in generate_string_texts(tree):
            for found in re.finditer(rf"(?={PROGRAM_NAME})", re.sub(r"\s+", " ", text)):
                yield path.name, re.sub(r"\s+", " ", text)[found.start() :]


def generate_string_texts(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module, with X for each inserted value."""
    nested = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            nested |= {id(child) for child in ast.walk(node)} - {id(node)}
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in nested:
            yield str(node.value)


def list_subcommands(parser: Parser) -> dict[str, Parser]:
    """Return the commands of a group, or nothing for a command."""
    return dict(parser.commands.choices) if parser.commands else {}


def is_complete_command(parser: Parser) -> bool:
    """Return whether a group is also a command, such as nova-shadow."""
    return " " in parser.prog and parser.get_default("run") is not None


def check_command(text: str) -> None:
    """Check that the command at the beginning of a text exists, and its options."""
    words = text.removeprefix(PROGRAM_NAME).split(" ")
    first = COMMAND_WORD_PATTERN.match(words[0])
    if first is None or first.group() in WORDS_WITHOUT_COMMAND:
        return
    parser: Parser = make_parser([first.group()])
    while commands := list_subcommands(parser):
        word = COMMAND_WORD_PATTERN.match(words.pop(0)) if words else None
        if is_complete_command(parser) and (word is None or word.group() not in commands):
            break
        assert word is not None, "the group's command is not named"
        assert word.group() in commands
        parser = commands[word.group()]
    options = {name for action in parser._actions for name in action.option_strings}
    for word in words:
        if word.startswith("--"):
            assert re.match(r"--[\w-]+", word).group() in options
        if word.endswith((".", ";", ",", ")", "`", ":")):
            return


def test_commands_on_console_pages_are_valid():
    commands = list(find_commands_in_templates())
    assert len(commands) >= 3
    for _, command in commands:
        words = shlex.split(command.removeprefix(PROGRAM_NAME))
        assert callable(make_parser(words).parse_args(words).run), command
        assert not list_possible_next_subcommands(words), command


def list_possible_next_subcommands(words: list[str]) -> dict[str, Parser]:
    """Return the commands of the group that a line ends with, or nothing if it is complete."""
    parser: Parser = make_parser(words)
    for word in words:
        parser = list_subcommands(parser).get(word, parser)
    return {} if is_complete_command(parser) else list_subcommands(parser)


@pytest.mark.slow
def test_commands_named_in_messages_exist():
    texts = {text for _, text in find_commands_in_modules()}
    assert len(texts) > 30
    for text in texts:
        check_command(text)


@pytest.mark.parametrize(
    "text", ["placement-sched fleet apply FILE", "placement-sched nova sync --chek"]
)
def test_command_check_detects_an_unknown_command(text):
    with pytest.raises((AssertionError, SystemExit)):
        check_command(text)
