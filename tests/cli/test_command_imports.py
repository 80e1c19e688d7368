# SPDX-License-Identifier: Apache-2.0
"""Imports of commands. Few imports make a command start fast."""

import json
import sys
from importlib import import_module
from importlib.metadata import entry_points

import pytest

from placement_sched.cli.arguments import Parser
from placement_sched.cli.main import list_groups
from placement_sched.model.extension import ENTRY_POINT_GROUP
from tests.support.commands import run_captured
from tests.support.repository import PACKAGE, ROOT, read_importers
from tests.support.servers import build_environment

pytestmark = pytest.mark.slow

#: Runs command lines in turn and prints the imported modules.
IMPORTED_MODULES_PROGRAM = """
import json, sys
from placement_sched.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        status = main(arguments)
    except SystemExit as left:
        status = left.code
    assert not status
print()
print(json.dumps(sorted(sys.modules)))
"""
#: The modules of commands of the core and of extensions, with the summaries of their commands.
GROUPS = {module: summaries for _, module, summaries in list_groups()}
#: The modules of this package that are imported before the command is parsed.
COMMON_MODULES = {
    "placement_sched",
    "placement_sched.cli",
    "placement_sched.cli.arguments",
    "placement_sched.cli.main",
    "placement_sched.errors",
    "placement_sched.extensions",
    "placement_sched.model",
    "placement_sched.model.extension",
    *(point.module for point in entry_points(group=ENTRY_POINT_GROUP)),
}


def list_imported_modules(*commands: list[str]) -> set[str]:
    """Return the modules that a process has imported after these commands."""
    done = run_captured(
        [sys.executable, "-c", IMPORTED_MODULES_PROGRAM, json.dumps(commands)],
        env=build_environment(),
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], []], ids=str)
def test_command_line_without_a_command_imports_no_command_module(arguments):
    modules = list_imported_modules(arguments)
    assert {name for name in modules if name.startswith("placement_sched")} == COMMON_MODULES
    bare = run_captured(
        [sys.executable, "-c", "import json, sys; print(json.dumps(sorted(sys.modules)))"],
        check=True,
    )
    packages = {name.partition(".")[0] for name in modules - set(json.loads(bare.stdout))}
    assert packages <= sys.stdlib_module_names | {"placement_sched"}


def test_no_module_imports_a_command_module():
    """Code of several commands has its own module, so that a command imports no other command."""
    importers = read_importers()
    paths = [ROOT / f"{module.replace('.', '/')}.py" for module in GROUPS]
    assert [path for path in paths if importers.get(path)] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", GROUPS)
def test_help_of_a_command_imports_no_other_command_module(module):
    modules = list_imported_modules(*([name, "--help"] for name in GROUPS[module]))
    assert GROUPS.keys() & modules == {module}


@pytest.mark.parametrize("module", GROUPS)
def test_summary_in_the_help_of_a_command_equals_that_of_the_command_list(module):
    """The module and GROUPS both have the summary."""
    commands = Parser().add_subparsers()
    import_module(module).register(commands)
    shown = {action.dest: action.help for action in commands._choices_actions}
    assert shown == GROUPS[module]


def test_every_command_module_is_in_the_table_of_commands():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder in ("cli", "extensions")
        for path in (PACKAGE / folder).rglob("*.py")
        if "def register(commands" in path.read_text()
    }
    assert modules == GROUPS.keys()
