# SPDX-License-Identifier: Apache-2.0
"""``demo``: sample cloud, with requests that are placed and explained."""

import argparse
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_format
from placement_sched.cli.output import print_document, show_waiting
from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.cli.service import find_free_port, parse_port
from placement_sched.errors import Error, Invalid, Unavailable
from placement_sched.extensions.fleet import demo as demos
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.extension import find_extensions

_LOOPBACK, _PORT = "127.0.0.1", 8778
_SERVER = f"http://{_LOOPBACK}:{_PORT}"


def _render_introduction(cloud: Json) -> RenderableType:
    hardware = _make_borderless_table("right", "left", "left")
    for generation in demos.GENERATIONS:
        count = len(demos.ZONES) * sum(generation.racks.values())
        hardware.add_row(str(count), Text(generation.kind, style="cyan"), generation.about)
    states = _make_borderless_table("left", "left")
    required = "an aggregate of the {} hosts, trait:{}=required"
    for name, state in (
        (demos.FULL_RACK, "a full rack: its hosts have no free memory"),
        (demos.SILENT_HOST, f"a host that is down: last report {demos.SILENCE.days} days ago"),
        (demos.DISABLED_HOST, f"a disabled host: {demos.DISABLED_REASON}"),
        ("licensed-windows", required.format("win", demos.WINDOWS_TRAIT)),
        ("gpu", required.format("gpu", demos.GPU_TRAIT)),
    ):
        states.add_row(Text(name, style="cyan"), state)
    return Group(
        Rule("[bold]A sample cloud", align="left", style="cyan"),
        f"{len(cloud['hosts'])} hosts in the zones {', '.join(demos.ZONES)}; "
        f"{len(cloud['instances'])} instances run on them. A host is named by zone, rack, kind "
        f"and number, such as {demos.SILENT_HOST}.",
        Padding(hardware, (1, 0)),
        states,
        "",
    )


def _render_closing(keep: Path | None, *, console: bool) -> RenderableType:
    if console:
        return Group(
            Rule("[bold]The console", align="left", style="cyan"),
            "Open the address below in a browser to view this cloud. Ctrl-C ends it.",
        )
    if keep is None:
        return Group(
            Rule("[bold]End of the demo", align="left", style="cyan"),
            "No files remain, and no server runs. To keep this cloud and query it:",
            _render_command(f"{_get_program_name()} demo --keep DIR"),
            "To view it in a browser until Ctrl-C, run either of",
            _render_command(f"{_get_program_name()} demo --console", "make demo CONSOLE=1"),
            f"and open the address of its console: {_SERVER}/",
        )
    config = shlex.quote(str(keep / demos.CONFIG_NAME))
    files = f"{demos.DATABASE_NAME}, and {demos.CONFIG_NAME}"
    return Group(
        Rule("[bold]Next steps", align="left", style="cyan"),
        Text(f"{keep} contains the cloud, {files}. Query it directly:"),
        _render_command(
            f"{_get_program_name()} explain --config-file {config} \\",
            "  --vcpus 8 --ram 16384 --disk 100 --zone az1",
        ),
        f"or serve it, view it in a browser at {_SERVER}/, and query it from another terminal:",
        _render_command(
            f"{_get_program_name()} serve --config-file {config}",
            "",
            "curl -s -H 'X-Auth-Token: admin' \\",
            f"  -H 'OpenStack-API-Version: placement {NEWEST}' \\",
            f"  '{_SERVER}/placement/allocation_candidates?resources=VGPU:1&limit=3'",
            "",
            "openstack --os-auth-type admin_token --os-token admin \\",
            f"  --os-endpoint {_SERVER}/placement \\",
            f"  resource provider list --name {demos.SILENT_HOST}",
        ),
    )


def _get_program_name() -> str:
    """Return the program's name, or its path if a shell does not find it."""
    path = sys.argv[0]
    is_found = shutil.which("placement-sched") or Path(path).name != "placement-sched"
    return "placement-sched" if is_found else shlex.quote(path)


def _render_command(*lines: str) -> RenderableType:
    return Text("\n".join(("", *(f"  {line}" for line in lines), "")), style="green")


def _make_borderless_table(*justify: JustifyMethod) -> Table:
    """Create a table without lines that wraps only its last column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for side in justify[:-1]:
        table.add_column(justify=side, no_wrap=True)
    table.add_column(justify=justify[-1])
    return table


#: Maximum width in columns: longer lines are hard to read on any terminal.
_MAX_WIDTH = 100
#: Seed of random choices, so that each run has the same result.
_SEED = 1
_TEMPORARY = "placement-sched-demo-"


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "place requests on a sample cloud of 300 hosts (needs no configuration)"
    epilog = "No files remain without --keep."
    parser = add_command(commands, "demo", summary, run, epilog=epilog, with_nova_conf=None)
    parser.add_examples("--keep cloud", "--console")
    keep_help = "keep the database of the cloud and a configuration file in this directory"
    parser.add_argument("--keep", metavar="DIR", type=Path, help=keep_help)
    console_help = "then serve the cloud and the console on this machine until Ctrl-C"
    parser.add_argument("--console", action="store_true", help=console_help)
    host_help = (
        "address of the console, which accepts any client as administrator (default: %(default)s)"
    )
    parser.add_argument("--host", default=_LOOPBACK, help=host_help)
    port_help = f"port of the console (default: {_PORT}, or a free port if it is in use)"
    parser.add_argument("--port", type=parse_port, metavar="PORT", help=port_help)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Create the cloud, place the requests and show each result."""
    now, keep = utcnow(), arguments.keep
    if arguments.port is not None and not arguments.console:
        raise WrongArguments("--port needs --console")
    if arguments.console and arguments.format != "text":
        raise WrongArguments(f"--console cannot be combined with --format {arguments.format}")
    if arguments.console and "console" not in find_extensions():
        raise Unavailable("--console needs the extension console, which is not installed")
    with ExitStack() as stack:
        # Signals end the process as Ctrl-C does, so that temporary files are removed.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
                stack.callback(signal.signal, number, signal.SIG_DFL)
        directory = keep or Path(stack.enter_context(TemporaryDirectory(prefix=_TEMPORARY)))
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise Invalid(f"--keep {keep}: {failure.strerror}") from None
        chance = Random(_SEED)  # noqa: S311 - chooses hosts, guards nothing
        with ExitStack() as resources:
            with show_waiting("creating a sample cloud of 300 hosts"):
                # The clock is fixed, so that each run prints the same.
                demo = resources.enter_context(demos.open_demo(directory, lambda: now, chance))
            if arguments.format != "text":
                placings = [demo.place(request) for request in demos.REQUESTS]
                print_document(_build_document(demo.cloud, placings, keep), arguments.format)
            else:
                _show(demo, keep, console=arguments.console)
        return _serve(directory, arguments.host, arguments.port) if arguments.console else 0


def _serve(directory: Path, host: str, port: int | None) -> int:
    """Serve the cloud until a signal, ignoring ``OS_*`` variables.

    Raises :class:`Error` if ``port`` is in use. Without a port, any free port is used.
    """
    # The server takes long to import, and only the console needs it.
    serve = import_module("placement_sched.cli.serve")
    run: Callable[[argparse.Namespace], int] = serve.run
    for name in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[name]
    # Without these settings a server on another address rejects noauth2 and shows no console.
    os.environ |= {"OS_API__AUTH_STRATEGY": "noauth2", "OS_CONSOLE__ENABLED": "true"}
    if port is None:
        try:
            port = find_free_port(host, _PORT)
        except Error:
            port = 0  # another server has it
    config = str(directory / demos.CONFIG_NAME)
    return run(argparse.Namespace(config_file=[config], host=host, port=port, workers=1))


def _show(demo: demos.Demo, keep: Path | None, *, console: bool) -> None:
    screen = Console(highlight=False)
    screen.width = min(screen.width, _MAX_WIDTH)
    names = {aggregate["uuid"]: aggregate["name"] for aggregate in demo.cloud["aggregates"]}
    screen.print(_render_introduction(demo.cloud))
    for number, request in enumerate(demos.REQUESTS, start=1):
        title = f"[bold]{number}/{len(demos.REQUESTS)}  {request.title}"
        rows = _make_borderless_table("left", "left")
        rows.add_row(Text("Request", style="bold"), request.description)
        rows.add_row(Text("Look at", style="bold"), request.hint)
        screen.print(Group(Rule(title, align="left", style="cyan"), rows, ""))
        placing = demo.place(request)
        render(placing.explanation, screen, placing.selected, names=names)
        screen.print()
    # Commands are not wrapped, so that they can be copied.
    screen.print(_render_closing(keep, console=console), soft_wrap=True)


def _build_document(
    cloud: Json, placings: Sequence[demos.DemoPlacement], keep: Path | None
) -> Json:
    return {
        "cloud": {
            "hosts": len(cloud["hosts"]),
            "instances": len(cloud["instances"]),
            "aggregates": {
                entry["name"]: {key: entry[key] for key in ("uuid", "metadata", "hosts")}
                for entry in cloud["aggregates"]
            },
            "disabled": {entry["host"]: entry["disabled_reason"] for entry in cloud["services"]},
        },
        "requests": [
            {
                "name": placing.request.name,
                "title": placing.request.title,
                "description": placing.request.description,
                "look_at": placing.request.hint,
                "request_spec": placing.request.spec,
                "explanation": placing.explanation,
                "claimed": list(placing.selected),
                "rejection": placing.rejection,
            }
            for placing in placings
        ],
        "kept": None if keep is None else str(keep.resolve()),
    }
