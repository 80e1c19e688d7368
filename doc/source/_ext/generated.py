# SPDX-License-Identifier: Apache-2.0
"""Directives whose content comes from the code, so that these pages cannot become outdated.

``plugins``, ``request-filter-order``, ``limits``, ``error-classes``, ``error-codes``, ``policies``,
``tables``, ``without-meaning``, ``command-help`` and ``decisions`` write what is in the tree now.
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from oslo_config import cfg
from sphinx.application import Sphinx

import placement_sched
from placement_sched import limits
from placement_sched.api.policy_rules import RULES
from placement_sched.api.request import get_status
from placement_sched.api.scheduler.routes import DEFAULT_CODES, SCHEDULER_CODES
from placement_sched.config.conf import create_conf
from placement_sched.config.options.ignored import OF_NOVA, OF_PLACEMENT
from placement_sched.config.settings import AliasedBoolOpt
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES
from placement_sched.errors import Error
from placement_sched.scheduler.drivers import all_drivers
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.plugin import SchedulerPlugin
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from placement_sched.scheduler.request_filters import BaseRequestFilter, all_request_filters
from placement_sched.scheduler.weights import all_weighers

ROOT = Path(__file__).resolve().parents[3]

_FAMILIES = {
    "filters": all_filters,
    "weighers": all_weighers,
    "drivers": all_drivers,
    "request_filters": all_request_filters,
    "selectors": all_selectors,
}
_TABLES = {"placement": PLACEMENT_TABLES, "own": OWN_TABLES}
_WITHOUT_MEANING = {"placement.conf": OF_PLACEMENT, "nova.conf": OF_NOVA}


#: Prints what ``--help`` prints, of every command.
_HELP = """
import json
from placement_sched.cli.completion import iterate_commands
from placement_sched.cli.main import make_parser
commands = iterate_commands(make_parser((), with_all_commands=True))
print(json.dumps({name: parser.format_help() for name, parser in commands}))
"""


class Generated(Directive):
    """A directive that writes reStructuredText lines and has them parsed."""

    def lines(self) -> Iterable[str]:
        """Return what stands in place of the directive."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return the parsed lines."""
        found = StringList()
        for number, line in enumerate(self.lines()):
            found.append(line, f"<{self.name}>", number)
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(found, self.content_offset, holder, match_titles=True)
        return holder.children


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table."""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield ""
    for row in (head, *rows):
        first, *rest = row
        yield f"   * - {first}"
        yield from (f"     - {cell}" for cell in rest)
    yield ""


def cleaned(text: str | None) -> str:
    """Return a docstring, with references to classes as plain names."""
    return re.sub(r":\w+:`~?([\w.]+)`", r"``\1``", inspect.cleandoc(text or ""))


class Plugins(Generated):
    """The shipped plugins of a family: their docstrings and options."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Yield one section for each plugin."""
        for kind in _FAMILIES[self.arguments[0]]():
            yield from self._plugin(kind)

    def _plugin(self, kind: type[SchedulerPlugin]) -> Iterator[str]:
        title = getattr(kind, "name", "") or kind.__name__
        yield from (title, "-" * len(title), "")
        if issubclass(kind, BaseRequestFilter | BasePolicySelector):
            yield from (f"Named {_names(kind)}.", "")
        yield from (*cleaned(kind.__doc__).splitlines(), "")
        if issubclass(kind, BaseHostFilter):
            how = "once, for the first" if kind.run_filter_once_per_request else "for each of them"
            yield f"A request for several instances asks it {how}."
            yield "It runs on rebuild, too." if kind.RUN_ON_REBUILD else ""
            yield ""
        for group, option in kind.options:
            yield from _option(group, option)
        yield from (f"Class: ``{kind.__module__}.{kind.__qualname__}``", "")


class RequestFilterOrder(Generated):
    """The shipped request filters in the order in which they run."""

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = (
            (str(number), f"`{kind.name}`_", _names(kind), _switch(kind))
            for number, kind in enumerate(all_request_filters(), start=1)
        )
        yield from table(("", "Request filter", "Names", "Runs"), rows)


def _names(kind: type[BaseRequestFilter | BasePolicySelector]) -> str:
    """Return every name that can order a request filter or selector."""
    return ", ".join(f"``{name}``" for name in (kind.name, *kind.aliases, kind.__name__))


def _switch(kind: type[BaseRequestFilter]) -> str:
    """Return when a request filter runs: always, or if its first option says so."""
    if kind().enabled(read_settings((), create_conf())):
        return "always"
    group, option = kind.options[0]
    return f"with ``[{group}] {option.dest}``"


def older_names(group: str, option: cfg.Opt) -> Iterator[str]:
    """Yield an option's other names, with their group if it differs."""
    for old in option.deprecated_opts:
        name = old.name or option.dest
        yield name if old.group in (None, group) else f"[{old.group}] {name}"


def _option(group: str, option: cfg.Opt) -> Iterator[str]:
    word = "also" if isinstance(option, AliasedBoolOpt) else "earlier"
    older = "".join(f", {word} ``{name}``" for name in older_names(group, option))
    default = "unset" if option.default is None else f"``{option.default}``"
    yield f"``[{group}] {option.dest}`` (default {default}{older})"
    yield f"    {' '.join((option.help or '').split())}"
    for choice, text in (getattr(option.type, "choices", None) or {}).items():
        yield from ("", f"    ``{choice}``: {text}" if text else f"    ``{choice}``")
    yield ""


class Limits(Generated):
    """The limits of ``limits.py``, with the comment of each, by section."""

    def lines(self) -> Iterator[str]:
        """Yield a section with a table for each part of the module."""
        source = Path(limits.__file__).read_text()
        for part in re.split(r"^# ", source, flags=re.MULTILINE)[2:]:
            title = part.partition("\n")[0]
            yield from (title, "-" * len(title), "")
            rows = re.findall(r"((?:^#: .+\n)+)(MAX_\w+)", part, re.MULTILINE)
            yield from table(
                ("Limit", "Value"),
                (
                    (text.replace("#: ", "").replace("\n", " "), f"{int(getattr(limits, name)):,}")
                    for text, name in rows
                ),
            )


class ErrorClasses(Generated):
    """Every error class that callers see, with its status and code."""

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = (
            (
                f"``{kind.__name__}``",
                str(int(get_status(kind("")))),
                f"``{kind.code}``",
                _first(kind),
            )
            for kind in sorted(set(_subclasses(Error)), key=lambda kind: kind.__name__)
        )
        yield from table(("Error", "Status", "Code", "Meaning"), rows)


def _subclasses(kind: type[Error]) -> Iterator[type[Error]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _first(kind: type) -> str:
    return cleaned(kind.__doc__).split("\n\n")[0].replace("\n", " ")


class ErrorCodes(Generated):
    """Every error code that the source names."""

    def lines(self) -> Iterator[str]:
        """Yield a list."""
        yield from (f"* ``{code}``" for code in sorted(codes()))
        yield ""


def codes() -> set[str]:
    """Return every error code that a class has or a raise gives, read from the source.

    The scheduler API has more, from tables.
    """
    package = Path(placement_sched.__file__).parent
    return {*DEFAULT_CODES.values(), *SCHEDULER_CODES.values()} | {
        value
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for value in _codes_of(node)
    }


def _codes_of(node: ast.AST) -> Iterator[str]:
    value: Any = None
    if isinstance(node, ast.keyword) and node.arg == "code":
        value = node.value
    if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["code"]:
        value = node.value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


class Policies(Generated):
    """Every policy rule with its default."""

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = ((f"``{rule.name}``", f"``{rule.check_str}``", rule.description) for rule in RULES)
        yield from table(("Rule", "Default", "What it allows"), rows)


class Tables(Generated):
    """The tables of the database, ours or OpenStack placement's, with their columns."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = (
            (f"``{one.name}``", ", ".join(f"``{column.name}``" for column in one.columns))
            for one in sorted(_TABLES[self.arguments[0]], key=lambda one: one.name)
        )
        yield from table(("Table", "Columns"), rows)


class WithoutMeaning(Generated):
    """The options of placement.conf or nova.conf that mean nothing here, and why."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Yield a table, options of one group and reason together."""
        together: dict[tuple[str, str], list[str]] = {}
        for (group, name), reason in _WITHOUT_MEANING[self.arguments[0]].items():
            together.setdefault((group, reason), []).append(f"``{name}``")
        rows = (
            (f"``[{group}]``", ", ".join(names), f"{reason[0].upper()}{reason[1:]}.")
            for (group, reason), names in together.items()
        )
        yield from table(("Group", "Options", "Why"), rows)


class Decisions(Generated):
    """The decisions kept in ``doc/decisions``, each with its title."""

    def lines(self) -> Iterator[str]:
        """Yield a list of links."""
        for path in sorted((ROOT / "doc" / "decisions").glob("*.md")):
            title = path.read_text().partition("\n")[0].removeprefix("# ")
            yield from (f"* :download:`{title} <../decisions/{path.name}>`", "")


class CommandHelp(Generated):
    """What ``--help`` prints, of every command."""

    def lines(self) -> Iterator[str]:
        """Yield a section for each command, and for each group of commands."""
        # In a process of its own: the commands import what other pages are not to list.
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _HELP],
            env={**os.environ, "COLUMNS": "90"},
            capture_output=True,
            check=True,
            timeout=240,
        )
        for name, text in json.loads(done.stdout).items():
            yield from (name, "-" * len(name), "", ".. code-block:: text", "")
            yield from (f"   {line}".rstrip() for line in text.splitlines())
            yield ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx."""
    app.add_directive("plugins", Plugins)
    app.add_directive("request-filter-order", RequestFilterOrder)
    app.add_directive("limits", Limits)
    app.add_directive("error-classes", ErrorClasses)
    app.add_directive("error-codes", ErrorCodes)
    app.add_directive("policies", Policies)
    app.add_directive("tables", Tables)
    app.add_directive("without-meaning", WithoutMeaning)
    app.add_directive("decisions", Decisions)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
