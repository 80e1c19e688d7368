# SPDX-License-Identifier: Apache-2.0
"""Plugin of python-openstackclient: ``openstack scheduler`` commands.

A command has the arguments of the same command of ``placement-sched``, and the login and output of
the ``openstack`` command, which loads this module at every start.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar

from cliff.columns import FormattableColumn
from keystoneauth1.adapter import Adapter
from osc_lib import exceptions, utils
from osc_lib.command import command

from placement_sched.cli.arguments import EmbeddedParser, Parser
from placement_sched.errors import Error, format_error

API_NAME = "scheduler"
API_VERSION_OPTION = "os_scheduler_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"

_FOLDER = "placement_sched.cli.scheduler"


def make_client(instance: Any) -> Any:
    """Return a client of the scheduler API with the session of ``openstack``."""
    adapter = Adapter(
        instance.session,
        service_type=API_NAME,
        region_name=instance.region_name,
        interface=instance.interface,
        endpoint_override=instance.sdk_connection.config.get_endpoint(API_NAME),
    )
    # Other commands of openstack need not wait for its import.
    return import_module(f"{_FOLDER}.scheduler_client").SchedulerClient(adapter)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the option of the API version."""
    parser.add_argument(
        "--os-scheduler-api-version",
        metavar="<scheduler-api-version>",
        default=utils.env("OS_SCHEDULER_API_VERSION"),
        help="Scheduler API version, default=1 (Env: OS_SCHEDULER_API_VERSION)",
    )
    return parser


class _Commands:
    """Substitute for subparsers that adds a command's arguments to a parser."""

    #: The parsers of commands by name, which only ``placement-sched`` needs.
    choices: Mapping[str, Parser] = MappingProxyType({})

    def __init__(self, words: Sequence[str], parser: argparse.ArgumentParser) -> None:
        self._words, self._parser = words, parser

    def add_parser(self, name: str, **_options: Any) -> Parser:
        """Return a parser for the command or its group, else an unused parser."""
        word, *subcommands = self._words
        if name not in {word, f"{word}s"}:
            return Parser(prog=name)
        return EmbeddedParser(
            self._parser, _Commands(subcommands, self._parser) if subcommands else None
        )


class _Cell(FormattableColumn[Any]):
    """A value that is shown to people as another text."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value)
        self._text = text

    def human_readable(self) -> str:
        """Return the text for people."""
        return self._text


class _SchedulerCommand(command.Command):
    """Command of ``placement-sched`` whose output ``openstack`` prints."""

    module: ClassVar[str]
    words: ClassVar[Sequence[str]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return a parser with the arguments of the ``placement-sched`` command."""
        parser = super().get_parser(prog_name)
        import_module(self.module).register(_Commands(self.words, parser))
        return parser

    def find_output(self, arguments: argparse.Namespace) -> Any:
        """Run the command and return its output."""
        outputs: list[Any] = []

        def receive(output: Any) -> None:
            outputs.append(output)
            if self.prints_report(arguments):
                # Printed before a failure for a missing host, as placement-sched does.
                output.report(import_module("placement_sched.cli.output").TextConsole())

        arguments.receive = receive
        try:
            manager: Any = self.app.client_manager
            arguments.scheduler = manager.scheduler
            status = arguments.run(arguments)
        except Error as failure:
            raise exceptions.CommandError(format_error(failure)) from None
        if status:
            raise exceptions.CommandError("no host remains")
        return outputs[0]

    def prints_report(self, _arguments: argparse.Namespace) -> bool:
        """Return whether the command prints a report instead of a table."""
        return False


def _build_cells(columns: Sequence[Any], row: Any) -> Iterator[Any]:
    for column in columns:
        value = column.value(row)
        is_simple = column.text is None and not isinstance(value, list | dict)
        yield value if is_simple else _Cell(value, column.format(row))


class ListCommand(_SchedulerCommand, command.Lister):
    """Command that prints a list."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        """Return the names and rows of a table."""
        output = self.find_output(parsed_args)
        has_all = parsed_args.formatter != "table" or parsed_args.columns
        columns = [column for column in output.columns if has_all or not column.hidden]
        names = [column.name for column in columns]
        return names, [tuple(_build_cells(columns, row)) for row in output.rows]


class ReportedList(ListCommand):
    """List that is printed as a report, unless a format is chosen."""

    def prints_report(self, arguments: argparse.Namespace) -> bool:
        """Return whether the options of the output have their defaults."""
        is_table: bool = arguments.formatter == "table"
        return is_table and not (arguments.columns or arguments.sort_columns)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the table, unless the report was printed."""
        if self.prints_report(parsed_args):
            return 0
        return super().produce_output(parsed_args, column_names, data)


class _Show(_SchedulerCommand, command.ShowOne):
    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        """Return the names and values of a single object."""
        output = self.find_output(parsed_args)
        names = [column.name for column in output.columns]
        return names, tuple(_build_cells(output.columns, output.rows[0]))


def define_command(base: type, module: str, words: str, summary: str) -> Any:
    """Define the class of a command, whose module has its arguments."""
    members = {"module": module, "words": words.split(), "__doc__": summary, "__module__": __name__}
    return type(words.title().replace(" ", ""), (base,), members)


def _define(base: type, module: str, words: str, summary: str) -> Any:
    return define_command(base, f"{_FOLDER}.{module}", words, summary)


DecisionList = _define(ListCommand, "decisions", "decision list", "List recorded decisions.")
DecisionReplay = _define(
    ReportedList, "decisions", "decision replay", "Repeat the request of a decision."
)
DecisionShow = _define(_Show, "decisions", "decision show", "Show a recorded decision.")
Explain = _define(
    ReportedList, "select", "explain", "Show the stages of a request, without a claim."
)
HostList = _define(ListCommand, "hosts", "host list", "List hosts with their free resources.")
HostShow = _define(_Show, "hosts", "host show", "Show a host.")
PolicyList = _define(ListCommand, "policy", "policy list", "List scheduling policies.")
PolicyShow = _define(
    ListCommand, "policy", "policy show", "Show the options of a scheduling policy."
)
Select = _define(
    ListCommand, "select", "select", "Select hosts for a request and claim its resources."
)
