"""``rebalance``: advice on moves; nothing is moved."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.scheduler.request_options import PathStep, in_words_of, keys_in
from placement_sched.cli.scheduler.scheduler_client import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import headed_table, print_json, waiting
from placement_sched.errors import Invalid
from placement_sched.model.document import Json

#: The argument that each part of the question comes from.
_ARGUMENTS = {
    "moves": "--moves",
    "request_spec.flavor": "FLAVOR",
    "request_spec.availability_zone": "--zone",
}
_EXAMPLE = """example:
  placement-sched rebalance --goal fit m1.large --moves 3
"""


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "advise on moves that make room, empty hosts or even out their load"
    rebalance = add_command(commands, "rebalance", summary, _run, epilog=_EXAMPLE)
    rebalance.add_argument(
        "flavor",
        metavar="FLAVOR",
        nargs="?",
        help="with --goal fit: the stored flavor (id or name) to make room for",
    )
    rebalance.add_argument(
        "--goal",
        choices=("fit", "pack", "spread"),
        default="fit",
        help="fit: make room for FLAVOR; pack: empty as many hosts as possible; spread: lower the "
        "highest load (default: %(default)s)",
    )
    rebalance.add_argument(
        "--moves",
        type=int,
        default=5,
        metavar="N",
        help="propose at most this many moves (default: 5)",
    )
    rebalance.add_argument("--zone", help="with --goal fit: availability zone")
    add_server_arguments(rebalance)
    add_format(rebalance)


def _run(arguments: argparse.Namespace) -> int:
    """Print the advice; 0 also where there is none."""
    body = _body(arguments)
    with open_scheduler(arguments) as scheduler, waiting("searching"), in_words_of(_place_of):
        found = scheduler.post("rebalance", body)
    if arguments.format == "json":
        print_json(found)
        return 0
    console = Console()
    if found["moves"]:
        table = headed_table("Instance", "From", "To", "Reason")
        for one in found["moves"]:
            table.add_row(one["instance"], one["from"], one["to"], one["reason"])
        console.print(table)
        console.print()
        names = found["moves"][0]["passed"]
        console.print(f"Each host was chosen by a real run, after {', '.join(names)}.")
    console.print(found["outcome"], soft_wrap=True)
    return 0


def _place_of(steps: Sequence[PathStep], _key: str | None) -> str | None:
    """Return the argument that a value of the request came from."""
    return _ARGUMENTS.get(keys_in(steps[:2]))


def _body(arguments: argparse.Namespace) -> Json:
    body: Json = {"goal": arguments.goal, "moves": arguments.moves}
    if arguments.goal != "fit":
        if arguments.flavor is not None or arguments.zone is not None:
            raise Invalid(f"--goal {arguments.goal} takes no FLAVOR and no --zone")
        return body
    if arguments.flavor is None:
        raise Invalid("--goal fit needs a FLAVOR")
    spec: Json = {"flavor": arguments.flavor}
    if arguments.zone is not None:
        spec["availability_zone"] = arguments.zone
    return {**body, "request_spec": spec}
