# SPDX-License-Identifier: Apache-2.0
"""``plugin check`` and ``plugin list``: third-party filters and weighers."""

import argparse
from collections.abc import Iterable, Mapping
from operator import itemgetter

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group, add_output
from placement_sched.cli.database import read_command_settings
from placement_sched.cli.output import Column, Output, print_output, print_result
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.nova_plugins.plugin_check import (
    SYNTAX,
    Finding,
    check_source,
    describe_interface,
    expand_targets,
    find_left_out,
    find_missing_methods,
    find_source,
    load_classes,
    try_files,
)
from placement_sched.scheduler.plugin import get_class_path
from placement_sched.scheduler.plugins import get_plugins


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "plugin", "check filters and weighers of other packages")
    summary = "check whether plugins run: names of nova, options, and a dry run on made-up hosts"
    parser = add_command(
        group,
        "check",
        summary,
        run_check,
        epilog="Exit status 1: a plugin needs something that is missing, or fails.",
    ).add_examples("placement_sched.scheduler.filters.disk_filter")
    help_text = (
        "file or folder with plugins, or dotted path of a package, module, class or function"
    )
    parser.add_argument("targets", nargs="+", metavar="PATH|DOTTED.NAME", help=help_text)
    add_format(parser)
    parser = add_command(group, "list", "list the plugins that are enabled", run_list)
    add_output(parser.add_examples(""))


def run_check(arguments: argparse.Namespace) -> int:
    """Print a line per finding, and return 1 if there is a problem."""
    settings = read_command_settings(arguments)
    left_out = find_left_out(arguments.targets)
    findings = dict.fromkeys(left_out)
    kinds: dict[type, None] = {}
    for target in expand_targets(arguments.targets):
        files, failures = [target] if target.endswith(".py") else [], []
        try:
            loaded = load_classes(target)
        except ConfigurationError as error:
            loaded, failures = [], [Finding(target, 0, "import", "fails", error.detail)]
        # After the import, since a check needs the options that plugins and helpers declare.
        sources = dict.fromkeys([*files, *map(find_source, loaded)])
        checked = [finding for file in sources for finding in check_source(file, settings.conf)]
        # A syntax error is the reason of the failed import.
        if not any(finding.subject == SYNTAX for finding in checked):
            checked += failures
        findings |= dict.fromkeys(checked)
        kinds |= dict.fromkeys(loaded)
    findings |= dict.fromkeys(find_missing_methods(kinds))
    findings |= dict.fromkeys(try_files(kinds, settings))
    documents = [
        {name: getattr(finding, name) for name in ("file", "line", "subject", "state", "problem")}
        for finding in findings
    ]
    lines = _list_lines(findings) or ["no filter or weigher was found"]
    print_result(arguments, documents, lines)
    is_checked = len(findings) > len(left_out)
    return int(not is_checked or any(finding.problem for finding in findings))


def _list_lines(findings: Iterable[Finding]) -> list[str]:
    """Format a line per problem and dry run, and per file a line of names."""
    findings = list(findings)
    provided: dict[str, list[str]] = {}
    for finding in findings:
        if finding.line and not finding.problem:
            provided.setdefault(finding.file, []).append(finding.subject)
    lines = [f"{file}: provided: {', '.join(names)}" for file, names in provided.items()]
    return lines + [str(finding) for finding in findings if finding.problem or not finding.line]


def run_list(arguments: argparse.Namespace) -> int:
    """Print the enabled plugins in running order."""
    plugins = get_plugins(read_command_settings(arguments))
    rows = [
        {
            "kind": kind,
            "name": type(plugin).__name__,
            "path": get_class_path(type(plugin)),
            "file": find_source(type(plugin)),
            "interface": describe_interface(plugin),
        }
        for kind, enabled in (
            ("request filter", plugins.request_filters),
            ("filter", plugins.filters),
            ("weigher", plugins.weighers),
        )
        for plugin in enabled
    ]
    columns = (
        Column("Kind", itemgetter("kind")),
        Column("Name", itemgetter("name")),
        Column("File", itemgetter("file"), _describe_file),
        Column("Interface", itemgetter("interface")),
        Column("Path", itemgetter("path"), hidden=True),
    )
    print_output(arguments, Output(rows, columns, rows))
    return 0


def _describe_file(row: Mapping[str, str]) -> str:
    return "shipped" if row["path"].startswith("placement_sched.") else row["file"]
