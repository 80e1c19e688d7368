"""``demo``: a sample cloud, a handful of requests placed on it, and why hosts were rejected."""

import argparse
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.cli.arguments import Commands, add_format
from placement_sched.cli.listening import free_port
from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.errors import Error, Invalid
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.operations import demo as demos
from placement_sched.operations import demo as sample

_LOOPBACK, _PORT = "127.0.0.1", 8778
#: Seconds after which a lost interrupt is repeated.
_SOON = 0.01
_SERVER = f"http://{_LOOPBACK}:{_PORT}"


def _introduction(cloud: Json) -> RenderableType:
    hardware = _rows("right", "left", "left")
    for generation in sample.GENERATIONS:
        count = len(sample.ZONES) * sum(generation.racks.values())
        hardware.add_row(str(count), Text(generation.kind, style="cyan"), generation.about)
    states = _rows("left", "left")
    required = "an aggregate of the {} hosts, trait:{}=required"
    for name, state in (
        (sample.FULL_RACK, "a full rack: its hosts have no memory left"),
        (sample.SILENT_HOST, f"a host that is down: last report {sample.SILENCE.days} days ago"),
        (sample.DISABLED_HOST, f"a disabled host: {sample.DISABLED_REASON}"),
        ("licensed-windows", required.format("win", sample.WINDOWS_TRAIT)),
        ("gpu", required.format("gpu", sample.GPU_TRAIT)),
    ):
        states.add_row(Text(name, style="cyan"), state)
    return Group(
        Rule("[bold]A sample cloud", align="left", style="cyan"),
        f"{len(cloud['hosts'])} hosts in the zones {', '.join(sample.ZONES)}; "
        f"{len(cloud['instances'])} instances are on them already. A host is named by zone, rack, "
        f"kind and number, like {sample.SILENT_HOST}.",
        Padding(hardware, (1, 0)),
        states,
        "",
    )


def _closing(keep: Path | None, *, console: bool) -> RenderableType:
    if console:
        return Group(
            Rule("[bold]The console", align="left", style="cyan"),
            "Open the address below in a browser to look at this cloud. Ctrl-C ends it.",
        )
    if keep is None:
        return Group(
            Rule("[bold]End of the demo", align="left", style="cyan"),
            "No files are left, and no server runs. To keep this cloud and query it:",
            _command(f"{_as_called()} demo --keep DIR"),
            "To look at it in a browser until Ctrl-C ends it, run one of",
            _command(f"{_as_called()} demo --console", "make demo CONSOLE=1"),
            f"and open the address of its console: {_SERVER}/",
        )
    config = shlex.quote(str(keep / demos.CONFIG_NAME))
    files = f"{demos.DATABASE_NAME}, and {demos.CONFIG_NAME}"
    return Group(
        Rule("[bold]Next steps", align="left", style="cyan"),
        Text(f"{keep} has the cloud, {files}. Query it directly:"),
        _command(
            f"{_as_called()} explain --config-file {config} \\",
            "  --vcpus 8 --ram 16384 --disk 100 --zone az1",
        ),
        f"or serve it, look at it in a browser at {_SERVER}/, and query it from another terminal:",
        _command(
            f"{_as_called()} serve --config-file {config}",
            "",
            "curl -s -H 'X-Auth-Token: admin' \\",
            f"  -H 'OpenStack-API-Version: placement {NEWEST}' \\",
            f"  '{_SERVER}/placement/allocation_candidates?resources=VGPU:1&limit=3'",
            "",
            "openstack --os-auth-type admin_token --os-token admin \\",
            f"  --os-endpoint {_SERVER}/placement \\",
            f"  resource provider list --name {sample.SILENT_HOST}",
        ),
    )


def _as_called() -> str:
    """Return how the program was called, if a shell would not find it by its name."""
    called = sys.argv[0]
    is_found = shutil.which("placement-sched") or Path(called).name != "placement-sched"
    return "placement-sched" if is_found else shlex.quote(called)


def _command(*lines: str) -> RenderableType:
    return Text("\n".join(("", *(f"  {line}" for line in lines), "")), style="green")


def _rows(*justify: JustifyMethod) -> Table:
    """Return rows in columns; those but the last are kept whole."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for side in justify[:-1]:
        table.add_column(justify=side, no_wrap=True)
    table.add_column(justify=justify[-1])
    return table


#: Lines longer than this are hard to read, however wide the terminal is.
_WIDEST = 100
#: The seed of random choices, so that each run is the same.
_SEED = 1
_TEMPORARY = "placement-sched-demo-"


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "place requests on a sample cloud of 300 hosts (needs no configuration)"
    parser = commands.add_parser(
        "demo",
        help=summary,
        description=summary[0].upper() + summary[1:] + ". Leaves no files unless --keep is given.",
    )
    keep_help = "keep the database of the cloud and a configuration file in this directory"
    parser.add_argument("--keep", metavar="DIR", type=Path, help=keep_help)
    console_help = "then serve the cloud on this machine, with the console, until Ctrl-C"
    parser.add_argument("--console", action="store_true", help=console_help)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Create the cloud, place the requests one after the other, and show each result."""
    now, keep = utcnow(), arguments.keep
    if arguments.console and arguments.format == "json":
        raise Invalid("--console cannot be combined with --format json")
    with ExitStack() as stack:
        # Signals that end the process do it like Ctrl-C, so that temporary files are removed.
        for one in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) == signal.SIG_DFL:
                signal.signal(one, signal.default_int_handler)
                stack.callback(signal.signal, one, signal.SIG_DFL)
        stack.enter_context(repeated_where_lost())
        directory = keep or Path(stack.enter_context(TemporaryDirectory(prefix=_TEMPORARY)))
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise Invalid(f"--keep {keep}: {failure.strerror}") from None
        chance = Random(_SEED)  # noqa: S311 - chooses hosts, guards nothing
        with ExitStack() as made:
            with waiting("making a sample cloud of 300 hosts"):
                # Time stands still, so that the same is shown every time.
                demo = made.enter_context(demos.opened(directory, lambda: now, chance))
            if arguments.format == "json":
                placings = [demo.place(request) for request in demos.REQUESTS]
                print_json(_document(demo.cloud, placings, keep))
            else:
                _show(demo, keep, console=arguments.console)
        return _served(directory) if arguments.console else 0


@contextmanager
def repeated_where_lost() -> Iterator[None]:
    """Interrupt again where Python drops an interrupt: in a callback of its garbage collector."""

    def repeat(lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _SOON)  # here it would be dropped as well
        else:
            hook(lost)

    hook, sys.unraisablehook = sys.unraisablehook, repeat
    alarm = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, alarm)
        sys.unraisablehook = hook


def _served(directory: Path) -> int:
    """Serve the cloud on this machine until a signal ends it, whatever else is configured here."""
    # The server takes a while to import, and a demo without the console needs none.
    serve = import_module("placement_sched.cli.serve")
    served: Callable[[argparse.Namespace], int] = serve.run
    for name in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[name]
    try:
        port = free_port(_LOOPBACK, _PORT)
    except Error:
        port = 0  # another server has it
    config = str(directory / demos.CONFIG_NAME)
    return served(argparse.Namespace(config_file=[config], host=_LOOPBACK, port=port, workers=1))


def _show(demo: demos.Demo, keep: Path | None, *, console: bool) -> None:
    screen = Console(highlight=False)
    screen.width = min(screen.width, _WIDEST)
    names = {aggregate["uuid"]: aggregate["name"] for aggregate in demo.cloud["aggregates"]}
    screen.print(_introduction(demo.cloud))
    for number, request in enumerate(demos.REQUESTS, start=1):
        title = f"[bold]{number}/{len(demos.REQUESTS)}  {request.title}"
        rows = _rows("left", "left")
        rows.add_row(Text("Request", style="bold"), request.asks)
        rows.add_row(Text("Look at", style="bold"), request.look_at)
        screen.print(Group(Rule(title, align="left", style="cyan"), rows, ""))
        placing = demo.place(request)
        render(placing.explanation, screen, placing.selected, names=names)
        screen.print()
    # Commands are not broken into lines other than their own, so that they can be copied.
    screen.print(_closing(keep, console=console), soft_wrap=True)


def _document(cloud: Json, placings: Sequence[demos.Placing], keep: Path | None) -> Json:
    return {
        "cloud": {
            "hosts": len(cloud["hosts"]),
            "instances": len(cloud["instances"]),
            "aggregates": {
                one["name"]: {key: one[key] for key in ("uuid", "metadata", "hosts")}
                for one in cloud["aggregates"]
            },
            "disabled": {one["host"]: one["disabled_reason"] for one in cloud["services"]},
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
