"""``config sample`` and ``config validate``."""

import argparse
import os
import sys

from oslo_config import cfg, generator

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database, shown
from placement_sched.cli.terminal import print_json, sentence, waiting
from placement_sched.config.settings import Settings
from placement_sched.db.migrate import current_revision
from placement_sched.errors import ConfigurationError, Unavailable
from placement_sched.operations.config_check import Problem, check_files, check_settings
from placement_sched.operations.option_catalogue import NAMESPACES
from placement_sched.scheduler.loading import full_conf, read_settings


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
        "--database", action="store_true", help="also check that the database answers"
    )
    add_format(parser)
    parser.set_defaults(run=run_validate)


def run_sample(_arguments: argparse.Namespace) -> int:
    """Print the sample that oslo.config's generator makes of all options."""
    wanted = cfg.ConfigOpts()
    generator.register_cli_opts(wanted)
    wanted(
        args=[part for name in NAMESPACES for part in ("--namespace", name)],
        default_config_files=[],
        default_config_dirs=[],
    )
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
        settings = read_settings(files, conf)
    except ConfigurationError as wrong:
        whole = [Problem(None, wrong.detail)]
    problems = check_files(files, os.environ, conf)
    if settings is None:
        # What keeps the files from being read is told once: by line where a line is at fault.
        return problems if any(problem.fatal for problem in problems) else [*problems, *whole]
    told = {problem.text for problem in problems}
    problems += [problem for problem in check_settings(settings) if problem.text not in told]
    if arguments.database and not any(problem.fatal for problem in problems):
        problems += _check_database(settings)
    return problems


def _check_database(settings: Settings) -> list[Problem]:
    try:
        with open_database(settings) as database, waiting(f"asking {shown(database)}"):
            current_revision(database)
    except Unavailable as failure:
        return [Problem(None, f"[placement_database] connection: {sentence(failure)}")]
    return []


def _document(problem: Problem) -> dict[str, object]:
    place = problem.place
    return {
        "severity": "error" if problem.fatal else "warning",
        "file": place.file if place else None,
        "line": (place.line or None) if place else None,
        "problem": problem.text,
    }
