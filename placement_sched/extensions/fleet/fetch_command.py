# SPDX-License-Identifier: Apache-2.0
"""``fleet fetch``: the fleet file of a cloud, read over its APIs."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_format
from placement_sched.cli.database import read_command_settings
from placement_sched.cli.login import make_adapters
from placement_sched.cli.output import (
    TextConsole,
    make_table,
    print_document,
    read_text,
    show_progress,
)
from placement_sched.clients.api_reader import ApiReader, CallPool, has_administrator_role
from placement_sched.clients.cloud_reader import CloudReading, EarlierReading, read_cloud
from placement_sched.config.settings import Settings
from placement_sched.extensions.fleet.anonymize_command import (
    add_anonymize_arguments,
    check_anonymize_arguments,
    read_or_create_names,
)
from placement_sched.extensions.fleet.fetch import (
    FACTS,
    FetchedCloud,
    build_anonymised_file,
    build_cloud,
    build_file,
    read_earlier,
)
from placement_sched.extensions.fleet.names import Names
from placement_sched.extensions.fleet.replaced_file import replace_file
from placement_sched.model.clock import utcnow

_SERVICES = ("placement", "compute", "image")
_MAX_PARALLEL = 64


def register(group: Commands) -> None:
    """Add the command to the group ``fleet``."""
    summary = "read a cloud over its public APIs, and write it to a fleet file"
    epilog = "The page look of the documentation describes the file and the rights that it needs."
    parser = add_command(group, "fetch", summary, run_fetch, epilog=epilog, wrong_input=2)
    parser.add_examples(
        "--os-cloud prod cloud.yaml", "--os-cloud prod share.yaml --anonymize --names names.json"
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the file to write. Providers of an earlier file of this cloud that have not changed "
        "are not read again",
    )
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="the cloud of clouds.yaml (default: $OS_CLOUD, or $OS_AUTH_URL and further $OS_* "
        "variables)",
    )
    parser.add_argument("--os-cacert", metavar="FILE", help="verify servers with this CA bundle")
    parser.add_argument(
        "--parallel",
        metavar="N",
        type=_read_parallel,
        default=8,
        help="calls at the same time (default: %(default)s)",
    )
    parser.add_argument(
        "--rate", metavar="N", type=_read_rate, help="calls a second (default: no limit)"
    )
    parser.add_argument(
        "--all-aggregates",
        action="store_true",
        help="read the aggregates of each provider, with a call for each",
    )
    add_anonymize_arguments(parser)
    parser.set_defaults(token=None)
    add_format(parser)


def _read_parallel(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= _MAX_PARALLEL:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_PARALLEL}")
    return number


def _read_rate(text: str) -> float:
    rate = 0.0
    with suppress(ValueError):
        rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls a second")
    return rate


def run_fetch(arguments: argparse.Namespace) -> int:
    """Read a cloud, write its file, and print counts and missing facts."""
    check_anonymize_arguments(arguments)
    begin = time.monotonic()
    reading, cloud = fetch(arguments, read_command_settings(arguments))
    _print_summary(arguments, reading, cloud, time.monotonic() - begin)
    return 0


def fetch(arguments: argparse.Namespace, settings: Settings) -> tuple[CloudReading, FetchedCloud]:
    """Read the cloud that the arguments name, and write its file.

    Raises :class:`Invalid` if the file is no earlier file of this cloud, or cannot be written.
    """
    adapters = make_adapters(arguments, dict.fromkeys(_SERVICES, ("", None)))
    if not adapters:
        raise WrongArguments("name the cloud to read: --os-cloud NAME, or set $OS_CLOUD")
    name, file = get_cloud_name(arguments), Path(arguments.file)
    # Commands with --look have no option to anonymise.
    anonymizes = getattr(arguments, "anonymize", False)
    names = read_or_create_names(arguments.names) if anonymizes else None
    earlier = _read_earlier_file(file, name, settings, names)
    is_administrator = has_administrator_role(adapters["compute"])
    with (
        replace_file(file) as output,
        show_progress(f"reading {name}", counts=True) as progress,
        CallPool(arguments.parallel, arguments.rate, progress) as pool,
    ):
        placement, compute, image = (ApiReader(adapters[kind], kind, pool) for kind in _SERVICES)
        reading = read_cloud(
            (placement, compute, image),
            pool,
            utcnow,
            all_aggregates=arguments.all_aggregates,
            earlier=earlier,
        )
        cloud = build_cloud(reading, settings, is_administrator=is_administrator)
        if names is None:
            text = build_file(cloud, reading, name, settings)
        else:
            text, names = build_anonymised_file(cloud, reading, name, settings, names)
            # The file of names is complete before a file that needs it exists.
            names.write(arguments.names)
        output.write(text)
    return reading, cloud


def get_cloud_name(arguments: argparse.Namespace) -> str:
    """Return the name of the cloud to read, or the URL of its keystone."""
    name: str | None = arguments.os_cloud
    return name or os.environ.get("OS_CLOUD") or os.environ.get("OS_AUTH_URL", "")


def _read_earlier_file(
    file: Path, name: str, settings: Settings, names: Names | None
) -> EarlierReading | None:
    if not file.exists():
        return None
    return read_earlier(read_text(str(file)), str(file), name, settings, utcnow(), names)


def _print_summary(
    arguments: argparse.Namespace, reading: CloudReading, cloud: FetchedCloud, seconds: float
) -> None:
    state = cloud.state
    counts = {
        "hosts": len(state.nodes),
        "providers": len(state.providers),
        "servers": len(state.instances),
        "flavors": len(state.flavors),
        "images": len(state.images),
        "aggregates": len(state.aggregates),
        "server groups": len(state.server_groups),
        "consumers in flight": len(cloud.in_flight),
        "orphaned consumers": len(cloud.orphaned),
        "providers not read again": reading.reused,
        "calls": reading.calls,
        "seconds": round(seconds, 1),
    }
    missing = [
        {"missing": FACTS[fact].title, "reason": reason, "weakens": FACTS[fact].weakens}
        for fact, reason in cloud.missing.items()
    ]
    if arguments.format != "text":
        document = {"file": arguments.file, "counts": counts, "missing": missing}
        print_document(document, arguments.format)
        return
    console = TextConsole()
    table = make_table(arguments.file, "")
    table.columns[1].justify = "right"
    for noun, number in counts.items():
        table.add_row(noun, f"{number:,}")
    console.print(table)
    table = make_table("Missing", "Why", "Weakens")
    for row in missing:
        table.add_row(*row.values())
    console.print(table)
