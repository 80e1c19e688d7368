"""``demo``: a sample cloud, a handful of requests placed on it, and why hosts were refused."""

import argparse
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from placement_sched.cli import demo_text
from placement_sched.cli.arguments import Commands, add_format
from placement_sched.cli.funnel import render
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.cloud import Cloud
from placement_sched.operations.demo import Demo, Placing, opened
from placement_sched.operations.sample_requests import sample_requests

Json = dict[str, Any]

#: Lines longer than this are hard to read, however wide the terminal is.
WIDEST = 100
#: What chance there is in scheduling goes the same way every time.
SEED = 1

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "watch requests being placed on a sample cloud of 300 hosts; nothing is needed"
    parser = commands.add_parser(
        "demo",
        help=summary,
        description=summary[0].upper() + summary[1:] + ", and nothing is left behind.",
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        help="leave the cloud's database and a configuration file in this directory",
    )
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the cloud, place the requests one after the other, and tell how each went."""
    now = utcnow()
    with ExitStack() as stack:
        stack.enter_context(_interrupted_by_signals())
        directory = stack.enter_context(_directory(arguments.keep))
        chance = Random(SEED)  # noqa: S311 - chooses hosts, guards nothing
        with waiting("making a sample cloud of 300 hosts"):
            # Time stands still, so that the same is shown every time.
            demo = stack.enter_context(opened(directory, lambda: now, chance))
        if arguments.format == "json":
            placings = [demo.place(request) for request in sample_requests()]
            print_json(_document(demo.cloud, placings, arguments.keep))
        else:
            _show(demo, arguments.keep)
    return 0


def _show(demo: Demo, keep: Path | None) -> None:
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST)
    names = {aggregate.uuid: aggregate.name for aggregate in demo.cloud.aggregates}
    console.print(demo_text.introduction(demo.cloud))
    requests = sample_requests()
    for number, request in enumerate(requests, start=1):
        console.print(demo_text.heading(request, f"{number}/{len(requests)}"))
        placing = demo.place(request)
        render(placing.explanation, console, placing.selected, names=names)
        console.print()
    # Commands are not broken into lines other than their own, so that they can be copied.
    console.print(demo_text.closing(keep), soft_wrap=True)


def _document(cloud: Cloud, placings: Sequence[Placing], keep: Path | None) -> Json:
    return {
        "cloud": {
            "hosts": len(cloud.reports),
            "instances": len(cloud.running),
            "aggregates": {
                aggregate.name: {
                    "uuid": aggregate.uuid,
                    "metadata": dict(aggregate.metadata),
                    "hosts": list(aggregate.hosts),
                }
                for aggregate in cloud.aggregates
            },
            "disabled": dict(cloud.disabled),
        },
        "requests": [
            {
                "name": placing.request.name,
                "title": placing.request.title,
                "asks": placing.request.asks,
                "look_at": placing.request.look_at,
                "request_spec": placing.request.spec,
                "explanation": placing.explanation,
                "claimed": list(placing.selected),
                "refused": placing.refused,
            }
            for placing in placings
        ],
        "kept": None if keep is None else str(keep.resolve()),
    }


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Give the directory that was named, made where it is missing, or one that goes away."""
    if keep is None:
        with TemporaryDirectory(prefix="placement-sched-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise Invalid(f"--keep {keep}: {failure.strerror}") from None
    yield keep


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Let signals that end the process go the way of Ctrl-C, so that nothing is left behind."""
    taken = [one for one in _ENDING if signal.getsignal(one) == signal.SIG_DFL]
    for one in taken:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)
