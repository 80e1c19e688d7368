"""``config sample`` and ``config validate``."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oslo_config import cfg, generator

from placement_sched.api import keystone
from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database, shown
from placement_sched.cli.sentences import sentence
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.config.api import KEYSTONE_GROUP
from placement_sched.config.messaging import oslo_messaging
from placement_sched.config.process import read_files
from placement_sched.config.settings import Settings
from placement_sched.db.migrate import current_revision, newest_revision
from placement_sched.errors import ConfigurationError, Unavailable
from placement_sched.operations.aggregate_policies import faults
from placement_sched.operations.config_check import Problem, check_files, check_settings
from placement_sched.operations.option_catalogue import NAMESPACES, PACKAGES
from placement_sched.operations.policy_check import check_policies, unlisted_policies
from placement_sched.scheduler.loading import full_conf, read_settings
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store import host_aggregates


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "config", summary="show every option, and check a configuration")
    parser = group.add_parser(
        "sample",
        help="print a configuration file with every option, its meaning and its default",
    )
    parser.set_defaults(run=run_sample)
    parser = add_command(group, "validate", summary="check configuration files line by line")
    parser.add_argument(
        "--database",
        action="store_true",
        help="also check that the database answers, and that the policies of its host aggregates "
        "are there, no two of them on one host",
    )
    add_format(parser)
    parser.set_defaults(run=run_validate)


def run_sample(_arguments: argparse.Namespace) -> int:
    """Print the sample that oslo.config's generator makes of all options."""
    wanted = cfg.ConfigOpts()
    generator.register_cli_opts(wanted)
    wanted(
        args=[part for name in (*NAMESPACES, PACKAGES) for part in ("--namespace", name)],
        default_config_files=[],
        default_config_dirs=[],
    )
    oslo_messaging()  # which is so kept from warning when the generator loads it
    generator.generate(wanted, output_file=sys.stdout)
    return 0


def run_validate(arguments: argparse.Namespace) -> int:
    """Print one line per problem; return 1 where one keeps the service from starting."""
    problems = _problems(arguments)
    if arguments.format == "json":
        print_json([_document(problem) for problem in problems])
    else:
        for problem in problems:
            sys.stdout.write(f"{problem}\n")
        if not problems:
            sys.stdout.write("the configuration is valid\n")
    return int(any(problem.fatal for problem in problems))


def _problems(arguments: argparse.Namespace) -> list[Problem]:
    files = arguments.config_file
    conf = full_conf()
    settings, whole = None, []
    try:
        with _silent("oslo_config"):  # deprecated names are told below, with their line
            settings = read_settings(files, conf)
    except ConfigurationError as wrong:
        whole = [Problem(None, wrong.detail)]
    unlisted = {} if settings is None else unlisted_policies(settings)
    problems = check_files(files, os.environ, conf, unlisted)
    if settings is None:
        # What keeps the files from being read is told once: by line where a line is at fault. What
        # is wrong with a plugin is at fault beside that of any line.
        by_line = any(problem.fatal for problem in problems) and not _can_be_read(files, conf)
        return problems if by_line else [*problems, *whole]
    told = {problem.text for problem in problems}
    problems += [problem for problem in check_settings(settings) if problem.text not in told]
    problems += check_policies(settings)
    problems += _check_keystone(settings, problems)
    if arguments.database and not any(problem.fatal for problem in problems):
        problems += _check_database(settings)
    return problems


def _can_be_read(files: Sequence[str], conf: cfg.ConfigOpts) -> bool:
    try:
        Settings.from_conf(read_files(conf, files))
    except ConfigurationError:
        return False
    return True


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a library's loggers from saying anything for a while."""
    logger = logging.getLogger(name)
    logger.propagate, before = False, logger.propagate
    logger.addHandler(nothing := logging.NullHandler())
    try:
        yield
    finally:
        logger.removeHandler(nothing)
        logger.propagate = before


def _check_keystone(settings: Settings, problems: Sequence[Problem]) -> list[Problem]:
    """Return why keystone cannot be asked, unless a line has told that already."""
    told = any(problem.fatal and f"[{KEYSTONE_GROUP}]" in problem.text for problem in problems)
    if settings.api.auth_strategy == "keystone" and not told:
        try:
            keystone.check(settings.conf)
        except ConfigurationError as wrong:
            return [Problem(None, wrong.detail)]
    return []


def _check_database(settings: Settings) -> list[Problem]:
    try:
        with open_database(settings) as database, waiting(f"asking {shown(database)}"):
            if current_revision(database) != newest_revision():
                return []  # there is no telling where aggregates are
            with database.read() as connection:
                aggregates = host_aggregates.snapshot(connection)
    except Unavailable as failure:
        return [Problem(None, f"[placement_database] connection: {sentence(failure)}")]
    return [Problem(None, fault) for fault in faults(aggregates, policies_for(settings))]


def _document(problem: Problem) -> dict[str, object]:
    place = problem.place
    return {
        "severity": "error" if problem.fatal else "warning",
        "file": place.file if place else None,
        "line": (place.line or None) if place else None,
        "problem": problem.text,
    }
