# SPDX-License-Identifier: Apache-2.0
"""The command ``trace run``."""

import csv
import json
from datetime import datetime, timedelta
from random import Random

import pytest

from placement_sched.cli.main import INTERRUPTED
from placement_sched.extensions.traces.cloud import TraceCloud
from placement_sched.extensions.traces.events import Event, format_trace
from tests.cli.conftest import run_cli as run_cli  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.extensions.traces.packer import PackedHost, pack
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.slow

FLAVORS = {"small": (1, 2048, 10), "large": (8, 16384, 40)}
CLOUD = """\
flavors:
- {name: small, vcpus: 1, memory_mb: 2048, root_gb: 10}
- {name: large, vcpus: 8, memory_mb: 16384, root_gb: 40}
hosts:
- {host: "cn[1-3]", vcpus: 16, memory_mb: 40960, local_gb: 500, cpu_allocation_ratio: 2.0,
   ram_allocation_ratio: 1.0}
"""
START = datetime(2026, 11, 1)
PACKED = (
    "packed: filter_scheduler.ram_weight_multiplier=-1 filter_scheduler.cpu_weight_multiplier=-1 "
    "filter_scheduler.disk_weight_multiplier=-1"
)


def build_event(line, kind, number, flavor=None, **more):
    request = flavor and {"flavor": flavor, **more}
    time = START + timedelta(hours=line)
    return Event(line=line, time=time, kind=kind, servers=(make_uuid(number),), request=request)


def build_random_events(random, number):
    events, alive = [], []
    for line in range(1, number + 1):
        if alive and random.random() < 0.4:
            events.append(build_event(line, "delete", alive.pop(random.randrange(len(alive)))))
        else:
            alive.append(line)
            events.append(build_event(line, "create", line, random.choice(["small", "large"])))
    return events


@pytest.fixture
def run_trace(tmp_path, monkeypatch, run_cli):
    """Return a function that runs events, or lines, on a small cloud."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cloud.yaml").write_text(CLOUD)

    def run(events, *arguments):
        text = events if isinstance(events, str) else format_trace(events)
        (tmp_path / "trace.jsonl").write_text(text)
        return run_cli("trace", "run", "trace.jsonl", "--fleet", "cloud.yaml", *arguments)

    return run


def run_to_json(run_trace, events, *arguments):
    status, output, errors = run_trace(events, *arguments, "-f", "json")
    assert status == 0, errors
    return json.loads(output)


def test_numbers_of_refused_requests_equal_those_of_a_reference_packer(run_trace):
    events = build_random_events(Random(1), 150)
    weigher = "nova.scheduler.weights.ram.RAMWeigher"
    document = run_to_json(
        run_trace, events, "--as", f'memory: filter_scheduler.weight_classes=["{weigher}"]'
    )
    hosts = [PackedHost(f"cn{number}", (32, 40960, 500), 40960) for number in range(1, 4)]
    refused = pack(hosts, events, FLAVORS)
    (run,) = document["variants"][0]["runs"]
    assert [refusal["line"] for refusal in run["refusals"]] == refused
    assert len(refused) > 10
    assert run["hosts"] == {uuid: host.name for host in hosts for uuid in host.servers}
    assert run["used_hosts"] == sum(bool(host.servers) for host in hosts)


def test_variants_are_compared_with_the_first(run_trace):
    events = [build_event(line, "create", line, "small") for line in range(1, 4)]
    document = run_to_json(run_trace, events, "--as", "now", "--as", PACKED, "--seeds", "2")
    now, packed = document["variants"]
    assert (now["used_hosts"]["median"], packed["used_hosts"]["median"]) == (3, 1)
    difference = {"variant": "packed", "than": "now", "figure": "used_hosts"}
    assert difference.items() <= document["differences"][0].items()
    assert document["differences"][0]["median"] == -2
    assert [run["seed"] for run in packed["runs"]] == [0, 1]


def test_difference_that_some_seeds_lack_is_not_reported(run_trace):
    events = [build_event(line, "create", line, "small") for line in range(1, 3)]
    chance = "chance: scheduler.driver=chance_scheduler filter_scheduler.weight_classes=[]"
    document = run_to_json(run_trace, events, "--as", "now", "--as", chance, "--seeds", "8")
    used = document["variants"][1]["used_hosts"]
    assert (used["min"], used["max"]) == (1, 2)
    assert [each["figure"] for each in document["differences"]] == []


def test_changes_add_and_remove_hosts(run_trace):
    events = [build_event(line, "create", line, "large") for line in range(1, 9)]
    larger = "new: change add=cn3*2, remove=cn[1-2]"
    document = run_to_json(run_trace, events, "--as", "now", "--as", larger)
    assert [variant["refused"]["median"] for variant in document["variants"]] == [2, 2]
    assert set(document["variants"][1]["runs"][0]["hosts"].values()) == {"cn3", "cn3+1", "cn3+2"}


def test_report_names_the_first_refused_request(run_trace):
    events = [build_event(line, "create", line, "large") for line in range(1, 9)]
    status, output, _ = run_trace(events, "--as", "now", "--explain", "1")
    assert status == 0
    assert "No valid host" in output
    cells = [" ".join(line.split()) for line in output.splitlines()]
    assert "Refused 2" in cells
    assert "First refused 2026-11-01T07:00" in cells
    assert "Lacking MEMORY_MB" in cells


def test_deleted_server_frees_its_host_and_a_refused_server_never_departs(run_trace):
    events = [build_event(line, "create", line, "large") for line in range(1, 8)]
    events += [build_event(8, "delete", 7), build_event(9, "create", 8, "large")]
    events += [build_event(10, "delete", 1), build_event(11, "create", 9, "large")]
    (run,) = run_to_json(run_trace, events)["variants"][0]["runs"]
    assert [refusal["line"] for refusal in run["refusals"]] == [7, 9]
    assert run["ignored"] == 1
    assert run["samples"][-1]["servers"] == 6


def test_servers_of_the_fleet_file_stay_unless_the_trace_creates_them_or_it_starts_empty(
    run_trace, tmp_path
):
    servers = "".join(
        f"- {{uuid: {make_uuid(number)}, name: s{number}, host: cn1, flavor: large}}\n"
        for number in (1, 2)
    )
    (tmp_path / "cloud.yaml").write_text(f"{CLOUD}instances:\n{servers}")
    events = [build_event(line, "create", line + 1, "large") for line in range(1, 7)]
    refused = [
        run_to_json(run_trace, events, *options)["variants"][0]["refused"]["median"]
        for options in ([], ["--empty"])
    ]
    assert refused == [1, 0]
    events = [build_event(1, "delete", 1), *events[1:]]
    (run,) = run_to_json(run_trace, events)["variants"][0]["runs"]
    assert run["samples"][-1]["servers"] == 6


def test_server_of_the_fleet_file_moves_with_its_recorded_request(run_trace, tmp_path):
    server = f"- {{uuid: {make_uuid(1)}, name: s1, host: cn1, flavor: large}}\n"
    (tmp_path / "cloud.yaml").write_text(f"{CLOUD}instances:\n{server}")
    events = [build_event(1, "move", 1), build_event(2, "resize", 1, "small")]
    (run,) = run_to_json(run_trace, events)["variants"][0]["runs"]
    assert run["refusals"] == []
    assert run["hosts"].keys() == {make_uuid(1)}
    assert run["samples"][0]["servers"] == run["samples"][-1]["servers"] == 1
    (run,) = run_to_json(run_trace, events[:1])["variants"][0]["runs"]
    assert run["hosts"][make_uuid(1)] != "cn1"


def test_deleted_servers_of_the_fleet_file_on_hosts_with_devices_are_counted(run_trace, tmp_path):
    pool = '{vendor_id: "8086", product_id: "1572", count: 1}'
    cloud = CLOUD.replace("local_gb: 500", f"local_gb: 500, pci_device_pools: [{pool}]")
    server = f"- {{uuid: {make_uuid(1)}, name: s1, host: cn1, flavor: large}}\n"
    (tmp_path / "cloud.yaml").write_text(f"{cloud}instances:\n{server}")
    status, output, errors = run_trace([build_event(1, "delete", 1)])
    assert status == 0, errors
    assert "The fleet file has 1 server of the trace on hosts with NUMA" in output


def test_csv_has_a_row_per_variant_and_the_cloud_over_time(run_trace, tmp_path):
    events = build_random_events(Random(2), 30)
    options = ("-f", "csv", "--over-time", "time.csv", "--as", "now", "--as", PACKED)
    status, output, _ = run_trace(events, *options)
    assert status == 0
    rows = list(csv.DictReader(output.splitlines()))
    assert [row["Variant"] for row in rows] == ["now", "packed"]
    samples = list(csv.DictReader((tmp_path / "time.csv").read_text().splitlines()))
    assert samples[-1]["variant"] == "packed"
    assert samples[-1]["time"] == "2026-11-02T06:00:00Z"
    assert int(samples[-1]["used_hosts"]) + int(samples[-1]["empty_hosts"]) == 3


def test_interrupted_run_prints_what_is_there(run_trace, monkeypatch):
    place, calls = TraceCloud.place, []

    def interrupt_third(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        place(*arguments)

    monkeypatch.setattr(TraceCloud, "place", interrupt_third)
    events = [build_event(line, "create", line, "small") for line in range(1, 6)]
    status, output, _ = run_trace(events, "-f", "json", "--as", "now", "--as", PACKED)
    assert status == INTERRUPTED
    document = json.loads(output)
    assert not document["complete"]
    assert [variant["runs"][0]["events"] for variant in document["variants"]] == [2]
    assert document["variants"][0]["runs"][0]["samples"][-1]["servers"] == 2


def test_results_of_finished_runs_are_printed_after_an_interrupt_between_runs(
    run_trace, monkeypatch
):
    initialize, calls = TraceCloud.__init__, []

    def interrupt_second(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        initialize(*arguments, **options)

    monkeypatch.setattr(TraceCloud, "__init__", interrupt_second)
    events = [build_event(line, "create", line, "small") for line in range(1, 4)]
    status, output, _ = run_trace(events, "-f", "json", "--as", "now", "--as", PACKED)
    assert status == INTERRUPTED
    document = json.loads(output)
    assert [variant["variant"] for variant in document["variants"]] == ["now"]
    assert not document["complete"]


UUID = make_uuid(1)
DELETE = f'{{"time": "2026-11-01T02:00:00Z", "event": "delete", "server": "{UUID}"}}'
CREATE = json.dumps(
    {
        "time": "2026-11-01T03:00:00Z",
        "event": "create",
        "request": {"flavor": "small", "instance_uuids": [UUID]},
    }
)
MISTAKES = {
    "not JSON": ("{", "trace.jsonl:1: not JSON:"),
    "no event": ("{}", "trace.jsonl:1: 'event' is required (at $)"),
    "unknown kind": ('{"event": "creat"}', "is not one of create, delete, resize, move"),
    "unknown key": (
        CREATE.replace('"request"', '"decison": 1, "request"'),
        "trace.jsonl:1: unknown key 'decison'. Did you mean 'decision'?",
    ),
    "no time": (DELETE.replace("2026-11-01T02:00:00Z", "monday"), "'monday' is no time"),
    "no server": (CREATE.replace("instance_uuids", "force_hosts"), "'instance_uuids' is required"),
    "order of times": (f"{CREATE}\n{DELETE}", "trace.jsonl:2: the event at 2026-11-01 02:00:00"),
    "delete before create": (
        f"{DELETE}\n{CREATE}",
        f"trace.jsonl:1: the delete of server {UUID} precedes its create in line 2",
    ),
    "second create": (f"{CREATE}\n{CREATE}", f"trace.jsonl:2: server {UUID} exists already"),
    "unknown server": (DELETE, f"trace.jsonl:1: server {UUID} does not exist"),
    "unknown flavor": (
        CREATE.replace("small", "smal"),
        "trace.jsonl:1: there is no flavor 'smal'. Did you mean 'small'?",
    ),
    "unknown image": (
        CREATE.replace('"flavor"', '"image": "cirros", "flavor"'),
        "trace.jsonl:1: There is no stored image 'cirros'",
    ),
    "empty trace": ("\n", "trace.jsonl: the trace has no events"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_event_is_an_error_with_its_line(run_trace, mistake):
    text, message = MISTAKES[mistake]
    status, _, errors = run_trace(text)
    assert status == 2
    assert message in errors


def test_invalid_events_are_counted_with_skip_invalid(run_trace):
    unknown = CREATE.replace(UUID, make_uuid(2)).replace("small", "huge")
    text = f"{{\n{CREATE}\n{unknown}\n{DELETE}"
    status, output, errors = run_trace(text, "--skip-invalid")
    assert status == 0, errors
    assert "3 invalid events left out." in output


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        (["x: filter_scheduler.ram_weight_multiplyer=1"], "ram_weight_multiplier"),
        (["x: change drain=cn9"], "there is no host 'cn9'"),
        (["x: change shrink=cn1"], "expected drain=HOST"),
        (["x: change remove=cn[1-"], "unterminated"),
        (["x: y"], "expected KEY=VALUE"),
        (["x", "x"], "two variants have the same name"),
    ],
)
def test_wrong_variant_is_an_error(run_trace, variants, message):
    arguments = [word for variant in variants for word in ("--as", variant)]
    status, _, errors = run_trace(CREATE, *arguments)
    assert status == 2
    assert message in errors


def test_run_needs_a_fleet_file(run_trace, run_cli):
    run_trace(CREATE)
    status, _, errors = run_cli("trace", "run", "trace.jsonl")
    assert status == 2
    assert "add --fleet FILE" in errors
