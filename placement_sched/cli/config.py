# SPDX-License-Identifier: Apache-2.0
"""``config sample`` and ``config validate``."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from oslo_config import cfg, generator

from placement_sched.api import auth
from placement_sched.api.policy import check_files
from placement_sched.api.policy_rules import RULES
from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import hide_password
from placement_sched.cli.output import print_result, show_waiting
from placement_sched.clients.session import silence_library_logs
from placement_sched.config import logs
from placement_sched.config.options.api import KEYSTONE_GROUP
from placement_sched.config.options.services import import_oslo_messaging
from placement_sched.config.settings import Conf, Settings, replace_wrong_values
from placement_sched.config.sources import read_sections, with_directories
from placement_sched.db.migrate import get_newest_revision, read_current_revision
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError, NotAdopted, Unavailable, format_error
from placement_sched.nova.databases import NovaDatabaseUnavailable, get_api_database
from placement_sched.nova.databases.placements import list_mapped_cells
from placement_sched.operations import config_check
from placement_sched.operations.adopt import check_adopted
from placement_sched.operations.aggregates import find_faults
from placement_sched.operations.config_check import NAMESPACES, PACKAGES, Problem
from placement_sched.operations.prepare import can_sync, check_schema_revision
from placement_sched.scheduler.plugins import make_full_conf, read_settings
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.store.compute import host_aggregates


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "config", "show all options and validate a configuration")
    summary = "print a configuration file with every option, its meaning and its default"
    parser = add_command(group, "sample", summary, _run_sample, with_nova_conf=None)
    parser.add_examples("> placement_sched.conf")
    parser = add_command(group, "validate", "check configuration files line by line", _run_validate)
    parser.add_examples("--config-file placement_sched.conf", "--database")
    parser.add_argument(
        "--database",
        action="store_true",
        help="also check that the database is reachable and its schema current, and that the "
        "policies of its host aggregates exist, with at most one policy per host",
    )
    add_format(parser)


def _run_sample(_arguments: argparse.Namespace) -> int:
    options = cfg.ConfigOpts()
    generator.register_cli_opts(options)
    options(
        args=[part for name in (*NAMESPACES, PACKAGES) for part in ("--namespace", name)],
        default_config_files=[],
        default_config_dirs=[],
    )
    import_oslo_messaging()  # loaded first, as it warns when the generator loads it
    generator.generate(options, output_file=sys.stdout)
    return 0


def _run_validate(arguments: argparse.Namespace) -> int:
    conf = make_full_conf()
    problems = _find_problems(arguments, conf)
    documents = [
        {
            "severity": "error" if problem.fatal else "warning",
            "file": problem.place.file if problem.place else None,
            "line": (problem.place.line or None) if problem.place else None,
            "problem": problem.text,
        }
        for problem in problems
    ]
    lines = [str(problem) for problem in problems] or ["the configuration is valid"]
    print_result(arguments, documents, lines)
    files = ", ".join(with_directories(arguments.config_file)) or "none"
    sys.stdout.flush()
    sys.stderr.write(f"files read: {files}\n")
    return int(any(problem.fatal for problem in problems))


def _find_problems(arguments: argparse.Namespace, conf: Conf) -> list[Problem]:
    files, wrong_values = arguments.config_file, list[ConfigurationError]()
    try:
        with silence_library_logs(["oslo_config"]):  # deprecated names are reported below, by line
            settings = read_settings(files, conf)
    except ConfigurationError as error:
        wrong_values = replace_wrong_values(conf)
        try:
            settings = read_settings(files, conf)
        except ConfigurationError:
            return _find_problems_of_unreadable(files, conf, error)
    value_problems = config_check.check_settings(settings)  # creates the plugins
    problems = config_check.check_lines(conf, os.environ, settings)
    places = {problem.place for problem in problems if problem.fatal}
    problems += [
        Problem(each.place, each.problem) for each in wrong_values if each.place not in places
    ]
    wrong_groups = {problem.group for problem in problems if problem.fatal} - {""}
    value_problems += _check_start(settings)
    # The client of a service cannot be created if a line of its group is wrong.
    problems += [problem for problem in value_problems if problem.group not in wrong_groups]
    problems += config_check.check_policies(settings)
    problems += [Problem(None, line, fatal=False) for line in config_check.list_warnings(settings)]
    if not any(problem.fatal for problem in problems):
        warnings = config_check.list_extension_warnings(settings)
        problems += [Problem(None, warning, fatal=False) for warning in warnings]
    if arguments.database and not any(problem.fatal for problem in problems):
        problems += [*_check_database(settings), *_check_nova_database(settings)]
    return problems


def _find_problems_of_unreadable(
    files: Sequence[str], conf: Conf, failure: ConfigurationError
) -> list[Problem]:
    errors: list[ConfigurationError] = []
    with suppress(ConfigurationError):  # a directory that cannot be read is ``failure``
        sections = read_sections(with_directories(files), errors)
        conf.sections = sections if errors else conf.sections
    problems = [Problem(error.place, error.problem) for error in errors]
    problems += config_check.check_lines(conf, os.environ)
    problems.sort(key=lambda problem: str(problem.place and problem.place.file))
    if not errors:
        with suppress(ConfigurationError):
            settings = Settings.from_conf(conf)
            problems += [*config_check.check_settings(settings), *_check_start(settings)]
    reported = {(problem.place, problem.text) for problem in problems}
    places = {problem.place for problem in problems if problem.place and problem.fatal}
    return problems + [
        Problem(error.place, error.problem)
        for error in failure.parts or [failure]
        if (error.place, error.problem) not in reported and error.place not in places
    ]


def _check_start(settings: Settings) -> list[Problem]:
    problems = []
    checks: list[tuple[str, Callable[[], str | None]]] = [
        ("", partial(check_files, settings, RULES)),
        ("", partial(logs.check_destination, settings.conf)),
    ]
    if settings.api.auth_strategy == "keystone":
        checks.insert(0, (KEYSTONE_GROUP, partial(auth.check_keystone, settings.conf)))
    for group, check in checks:
        try:
            if warning := check():
                problems.append(Problem(None, warning, fatal=False))
        except ConfigurationError as error:
            problems.append(Problem(error.place, error.problem, group=group))
    return problems


def _check_nova_database(settings: Settings) -> list[Problem]:
    if not settings.api_database.connection:
        return []
    database = get_api_database(settings)
    try:
        with show_waiting("checking nova's API database"), database.read() as connection:
            list_mapped_cells(connection)
    except NovaDatabaseUnavailable as failure:
        return [Problem(None, f"[api_database] connection: {failure.detail}")]
    finally:
        database.close()
    return []


def _check_database(settings: Settings) -> list[Problem]:
    try:
        with Database(settings) as database, show_waiting(f"checking {hide_password(database)}"):
            if read_current_revision(database) != get_newest_revision():
                # The schema may lack columns that the check of aggregates reads. A server starts
                # without an upgrade of the schema, but not without an adoption.
                try:
                    check_adopted(database)
                    if not can_sync(settings, database):
                        check_schema_revision(database)
                except Unavailable as failure:
                    is_fatal = isinstance(failure, NotAdopted)
                    return [Problem(None, format_error(failure), fatal=is_fatal)]
                return []
            with database.read() as connection:
                aggregates = host_aggregates.read_snapshot(connection)
    except Unavailable as failure:
        return [Problem(None, f"[placement_database] connection: {format_error(failure)}")]
    policies = get_policies(settings)
    return [Problem(None, fault) for fault in find_faults(aggregates, policies)]
