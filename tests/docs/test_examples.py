# SPDX-License-Identifier: Apache-2.0
"""The example plugins of the guide work alone and in a scheduling request."""

import json
import os
import re
import sys
import textwrap
from configparser import ConfigParser
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import SuggestedChange
from placement_sched.scheduler.host_state import HostState
from tests.docs.pages import PageFile, parse_files_and_commands
from tests.support.commands import run_captured

GUIDE_FOLDER = Path(__file__).parents[2] / "doc" / "source"
sys.path.append(str(GUIDE_FOLDER))

from acme_plugins.few_instances import FewInstancesWeigher  # noqa: E402 - needs the line above
from acme_plugins.night_shift import NightShiftFilter  # noqa: E402
from acme_plugins.racks import register  # noqa: E402
from acme_plugins.tenants_aggregate import TenantsAggregate  # noqa: E402

pytestmark = pytest.mark.slow

REQUEST_SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512), project_id="acme")


def test_extra_specs_of_example_plugins_are_validated() -> None:
    racks, rack = register()
    racks.check("8")
    with pytest.raises(Invalid, match="'9' is greater than the max value of '8'"):
        racks.check("9")
    assert rack.name_pattern.fullmatch("acme:rack.12")
    assert not rack.name_pattern.fullmatch("acme:rack.a")


def test_import_lines_of_the_porting_table_can_be_executed() -> None:
    text = (GUIDE_FOLDER / "writing_plugins.rst").read_text()
    lines = re.findall(r"     - ``(from placement_sched[^`]*)``(?:, (?:for )?``([\w.]+)``)?", text)
    assert len(lines) == 6
    for line, function_name in lines:
        exec(line, names := {})  # noqa: S102 - a line of the guide
        module = line.partition(" import ")[0].removeprefix("from ")
        if (
            function_name
            and "." not in function_name
            and not hasattr(names.get("utils"), function_name)
        ):
            exec(f"from {module} import {function_name}", {})  # noqa: S102 - as above
        if function_name and "." in function_name:
            assert eval(function_name, names)  # noqa: S307 - as above


def build_aggregate(number: int, **metadata: str) -> HostAggregate:
    return HostAggregate(
        id=number,
        uuid=f"0000000{number}-0000-4000-8000-000000000000",
        name=f"aggregate-{number}",
        hosts=frozenset({"cn1"}),
        metadata=metadata,
        created_at=None,
        updated_at=None,
    )


def test_night_shift_filter_rejects_a_sleeping_host_only_at_night() -> None:
    sleeper = HostState("cn1", "cn1", aggregates=(build_aggregate(1, sleeps="night"),))

    def make_night_shift_filter_at_hour(hour: int) -> NightShiftFilter:
        plugin = NightShiftFilter()
        return NightShiftFilter.with_settings(plugin.settings, lambda: datetime(2026, 1, 1, hour))

    assert make_night_shift_filter_at_hour(12).host_passes(sleeper, REQUEST_SPEC)
    assert not make_night_shift_filter_at_hour(23).host_passes(sleeper, REQUEST_SPEC)
    assert (
        make_night_shift_filter_at_hour(23).rejection(sleeper, REQUEST_SPEC).text
        == "it sleeps from 22 to 6, and it is 23"
    )
    assert make_night_shift_filter_at_hour(23).host_passes(HostState("cn2", "cn2"), REQUEST_SPEC)


def test_change_suggested_by_the_example_filter_lets_a_full_host_pass() -> None:
    page = (GUIDE_FOLDER / "writing_plugins.rst").read_text()
    (quiet,) = (
        part for part in parse_files_and_commands(page) if getattr(part, "name", "") == "quiet.py"
    )
    (method,) = re.findall(r"   def suggested_changes.*\n(?:       .*\n)+", page)
    source = f"{quiet.content}\n{textwrap.indent(method, ' ')}"
    exec(source, names := {"SuggestedChange": SuggestedChange})  # noqa: S102 - of the guide
    plugin = names["QuietHostsFilter"]()
    full = HostState("cn1", "cn1", num_instances=10)
    (change,) = plugin.suggested_changes(full, REQUEST_SPEC)
    assert f"``to pass: {change.words}``" in page
    assert plugin.rejection(replace(full, **change.host), REQUEST_SPEC) is None


def test_few_instances_weigher_prefers_the_emptier_host() -> None:
    weigher = FewInstancesWeigher()
    busy, idle = HostState("cn1", "cn1", num_instances=7), HostState("cn2", "cn2")
    assert weigher._weigh_object(idle, REQUEST_SPEC) > weigher._weigh_object(busy, REQUEST_SPEC)
    assert weigher.weight_multiplier(idle) == 1.0


@pytest.mark.parametrize(("tenant", "confined"), [("acme", True), ("other", False)])
def test_tenants_aggregate_request_filter_confines_its_project(tenant: str, confined: bool) -> None:
    aggregate = build_aggregate(1, tenant=tenant)

    class CloudWithOneAggregate:
        def host_aggregates(self) -> tuple[HostAggregate, ...]:
            return (aggregate,)

    outcome = TenantsAggregate().apply(REQUEST_SPEC, CloudWithOneAggregate())
    assert (outcome is not None) == confined
    if confined:
        assert outcome.spec.destination.aggregates == (aggregate.uuid,)


def test_explanation_of_a_request_shows_all_three_example_plugins(
    sqlite_url: str, sqlite_app, tmp_path: Path
) -> None:
    for number in (1, 2):
        report = {
            "uuid": f"0000000{number}-0000-4000-8000-000000000000",
            "host": f"cn{number}",
            "hypervisor_hostname": f"cn{number}",
            "vcpus": 8,
            "memory_mb": 16384,
            "local_gb": 100,
            "stats": {"num_instances": 5 - number},
        }
        sqlite_app.put_json(f"/scheduler/v1/compute_nodes/{report['uuid']}", report)
    created = sqlite_app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": "acme"}})
    action = f"/compute/v2.1/os-aggregates/{created.json['aggregate']['id']}/action"
    sqlite_app.post_json(action, {"set_metadata": {"metadata": {"tenant": "acme"}}})
    for host in ("cn1", "cn2"):
        sqlite_app.post_json(action, {"add_host": {"host": host}})

    explanation = _explain_with_example_plugins(sqlite_url, tmp_path)

    funnel = explanation["funnel"]
    assert "tenants_aggregate" in [
        entry["name"] for entry in funnel["request_filters"] if entry["applied"]
    ]
    assert [entry["name"] for entry in funnel["filters"]] == ["ComputeFilter", "NightShiftFilter"]
    assert {"name": "FewInstancesWeigher", "multiplier": 3.0} in funnel["weighers"]
    assert [host["host"] for host in explanation["hosts"]] == ["cn2", "cn1"]


def _explain_with_example_plugins(url: str, folder: Path) -> dict:
    """Run the command ``explain`` with the installed examples, and return its output."""
    files = {
        part.name: part.content
        for part in parse_files_and_commands((GUIDE_FOLDER / "writing_plugins.rst").read_text())
        if isinstance(part, PageFile)
    }
    package = ConfigParser()
    package.read_string(files["setup.cfg"])
    installed = folder / "acme_plugins-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_plugins\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "".join(f"[{group}]{lines}\n" for group, lines in package["options.entry_points"].items())
    )
    (folder / "sched.conf").write_text(
        f"{files['placement_sched.conf']}few_instances_weight_multiplier = 3\n"
        f"[placement_database]\nconnection = {url}\n"
    )
    request = {"project_id": "acme", "flavor": {"vcpus": 1, "memory_mb": 512}}
    (folder / "request.json").write_text(json.dumps(request))
    done = run_captured(
        [
            *(Path(sys.executable).parent / "placement-sched", "explain", folder / "request.json"),
            *("--config-file", folder / "sched.conf", "--format", "json"),
        ],
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{GUIDE_FOLDER}"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
