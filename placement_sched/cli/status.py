# SPDX-License-Identifier: Apache-2.0
"""``status upgrade check``: readiness of database and configuration."""

import argparse
from collections.abc import Mapping
from typing import Any

from oslo_upgradecheck.upgradecheck import Code, Result, UpgradeCommands

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import print_document
from placement_sched.operations.checks import check_upgrade

#: Exit status of placement-status if the checks could not be run.
_COULD_NOT_CHECK = 255


def register(commands: Commands) -> None:
    """Add the command."""
    group = add_group(commands, "status", "check upgrade readiness")
    parser = add_command(
        add_group(group, "upgrade", "check upgrade readiness"),
        "check",
        "check whether database and configuration are ready for this release",
        run,
        epilog=(
            "exit status, as of placement-status:\n"
            "  0    ready\n"
            "  1    warnings: the upgrade is possible\n"
            "  2    errors: fix them before the upgrade\n"
            "  255  the checks could not be run"
        ),
        failure=_COULD_NOT_CHECK,
    )
    add_format(parser.add_examples(""))
    parser.add_argument(
        "--json", action="store_true", help="print the JSON document of placement-status"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the result of each check, and return the worst code."""
    with read_configuration(arguments, must_exist=True) as (settings, database):
        results = check_upgrade(database, settings)
    code = max((result.code for result in results.values()), default=Code.SUCCESS)
    if arguments.json:
        document = {"name": str(UpgradeCommands.display_title), "checks": _build_checks(results)}
        print_document(document, "json")
    elif arguments.format != "text":
        checks = [
            {**check, "result": check["result"].name.capitalize()}
            for check in _build_checks(results)
        ]
        print_document({"code": int(code), "checks": checks}, arguments.format)
    else:
        _Table(results).check()
    return int(code)


def _build_checks(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    return [
        {"check": name, "result": result.code, "details": result.details}
        for name, result in results.items()
    ]


class _Table(UpgradeCommands):
    """oslo.upgradecheck's command, which prints the table of placement-status."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._upgrade_checks = tuple(
            (name, (lambda _table, result: result, {"result": result}))
            for name, result in results.items()
        )
