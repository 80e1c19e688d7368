"""What the demo says around its funnels: what the cloud is, what is asked, what to try next."""

import shlex
from pathlib import Path

from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from placement_sched.operations.cloud import Cloud
from placement_sched.operations.demo import CONFIG_NAME, DATABASE_NAME
from placement_sched.operations.sample_cloud import (
    DISABLED_HOST,
    DISABLED_REASON,
    FULL_RACK,
    GENERATIONS,
    GPU_TRAIT,
    SILENCE,
    SILENT_HOST,
    WINDOWS_TRAIT,
    ZONES,
)
from placement_sched.operations.sample_requests import SampleRequest

_SERVER = "http://127.0.0.1:8778"


def introduction(cloud: Cloud) -> RenderableType:
    """Return what the sample cloud is made of, and what is amiss in it."""
    hardware = _rows("right", "left", "left")
    for generation in GENERATIONS:
        count = len(ZONES) * len(generation.racks) * generation.per_rack
        hardware.add_row(str(count), Text(generation.kind, style="cyan"), generation.about)
    states = _rows("left", "left")
    for name, state in (
        (FULL_RACK, "a full rack: its hosts have no memory left"),
        (SILENT_HOST, f"a silent host: last heard of {SILENCE.days} days ago"),
        (DISABLED_HOST, f"a disabled host: {DISABLED_REASON}"),
        ("licensed-windows", f"an aggregate of the win hosts, trait:{WINDOWS_TRAIT}=required"),
        ("gpu", f"an aggregate of the gpu hosts, trait:{GPU_TRAIT}=required"),
    ):
        states.add_row(Text(name, style="cyan"), state)
    return Group(
        Rule("[bold]A sample cloud", align="left", style="cyan"),
        f"{len(cloud.reports)} hosts in the zones {', '.join(ZONES)}; {len(cloud.running)} "
        "instances are on them already. A host is named by zone, rack, kind and number, like "
        f"{SILENT_HOST}.",
        Padding(hardware, (1, 0)),
        states,
        "",
    )


def heading(request: SampleRequest, number: str) -> RenderableType:
    """Return what a request asks, and what to look at in what follows."""
    told = _rows("left", "left")
    told.add_row(Text("Asked", style="bold"), request.asks)
    told.add_row(Text("Look at", style="bold"), request.look_at)
    rule = Rule(f"[bold]{number}  {request.title}", align="left", style="cyan")
    return Group(rule, told, "")


def closing(keep: Path | None) -> RenderableType:
    """Return what is left, and what to try next."""
    if keep is None:
        return Group(
            Rule("[bold]That was it", align="left", style="cyan"),
            "Nothing is left behind. To keep this cloud and ask it more:",
            _command("placement-sched demo --keep DIR"),
        )
    config = shlex.quote(str(keep / CONFIG_NAME))
    return Group(
        Rule("[bold]Now you", align="left", style="cyan"),
        Text(f"{keep} has the cloud, {DATABASE_NAME}, and {CONFIG_NAME}. Ask it in place:"),
        _command(
            f"placement-sched explain --config-file {config} \\",
            "  --vcpus 8 --ram 16384 --disk 100 --zone az1",
        ),
        "or serve it, and ask from another terminal:",
        _command(
            f"placement-sched serve --config-file {config}",
            "",
            "curl -s -H 'X-Auth-Token: admin' \\",
            "  -H 'OpenStack-API-Version: placement 1.39' \\",
            f"  '{_SERVER}/placement/allocation_candidates?resources=VGPU:1&limit=3'",
            "",
            "openstack --os-auth-type admin_token --os-token admin \\",
            f"  --os-endpoint {_SERVER}/placement \\",
            f"  resource provider list --name {SILENT_HOST}",
        ),
    )


def _command(*lines: str) -> RenderableType:
    return Text("\n".join(("", *(f"  {line}" for line in lines), "")), style="green")


def _rows(*justify: JustifyMethod) -> Table:
    """Return rows in columns; those but the last are kept whole."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for side in justify[:-1]:
        table.add_column(justify=side, no_wrap=True)
    table.add_column(justify=justify[-1])
    return table
