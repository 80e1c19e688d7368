# SPDX-License-Identifier: Apache-2.0
"""The examples in the help of commands, run on a small cloud."""

import json
import re
import shlex
from contextlib import closing, redirect_stdout

import pytest

from placement_sched.app import create_app
from placement_sched.cli.completion import iterate_commands
from placement_sched.cli.main import convert_spelling, main, make_parser
from placement_sched.scheduler.plugins import read_settings
from tests.conftest import AdminClient
from tests.support.loopback import serve_application
from tests.support.scheduling import make_spec

pytestmark = pytest.mark.slow

FLEET_FILE_TEXT = """\
version: 1
flavors:
  - {name: m1.small, vcpus: 1, memory_mb: 2048, root_gb: 20}
  - {name: m1.large, vcpus: 4, memory_mb: 8192, root_gb: 80}
aggregates:
  - {name: az1, availability_zone: az1, hosts: "cn[1-3]"}
hosts:
  - host: cn[1-3]
    vcpus: 32
    memory_mb: 65536
    local_gb: 1000
    hypervisor_type: QEMU
    traits: [HW_CPU_X86_AVX2]
"""
CONF_TEXT = """\
[DEFAULT]
service_down_time = 86400
[placement_database]
connection = sqlite:///cloud.db
"""
#: The address in the examples.
EXAMPLE_SERVER_URL = "http://127.0.0.1:8778"
#: Request and instance of a decision in the examples.
REQUEST_ID, INSTANCE_UUID = (
    "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40",
    "5f3c2d1e-0000-4000-8000-000000000001",
)
CONFIG_FILE_OPTIONS = "--config-file /etc/nova/nova.conf --config-file placement_sched.conf"
#: Examples that are only parsed, with the reason.
ONLY_PARSED_EXAMPLES = {
    "serve": "a server, until a signal",
    "serve --bind 0.0.0.0:8778 --workers 4 --config-file placement_sched.conf": "as serve",
    "serve --fleet cloud.yaml --nova-conf nova.conf": "as serve",
    "demo --console": "a server, until a signal",
    f"nova-scheduler {CONFIG_FILE_OPTIONS}": "nova's databases and message bus",
    f"nova-shadow {CONFIG_FILE_OPTIONS}": "nova's databases and message bus",
    f"nova adopt {CONFIG_FILE_OPTIONS}": "nova's databases",
    "explain --server 5f2c9a7e-3b1d-4c68-9e20-7a8d6b4f1c35 --config-file nova.conf": "as adopt",
    f"nova sync --check {CONFIG_FILE_OPTIONS}": "nova's databases",
    "db adopt --config-file /etc/placement/placement.conf": "a database of OpenStack placement",
    "db leave --config-file placement_sched.conf": "an adopted database of OpenStack placement",
    "db leave --print --config-file placement_sched.conf": "an adopted database",
    "placement sync_aggregates --os-cloud mycloud": "a cloud in clouds.yaml",
    "host drain cn1 --execute --reason 'replacing a DIMM'": "nova",
    "host undrain cn1": "nova",
    "host evacuate cn1": "a host that is down",
    "host evacuate cn1 --execute --fenced": "nova",
    "plan --change drain=cn1 --execute": "nova",
    f"decision watch --request-id {REQUEST_ID} --max-wait 2h": "a decision without a host",
    "fleet fetch --os-cloud prod cloud.yaml": "a cloud in clouds.yaml",
    "fleet fetch --os-cloud prod share.yaml --anonymize --names names.json": "as cloud.yaml",
    "fleet names names.json answer.txt": "an answer of others, and the labels of a key",
    "plan-run show 7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c01": "a run of a plan",
}
#: Exit status of an example, unless it is 0.
EXIT_STATUS_BY_EXAMPLE = {"placement heal_allocations --dry-run --verbose": 4}
PROGRAM_PREFIX = "placement-sched "


def list_examples_in_help(text: str) -> list[str]:
    """Return the examples in the help of a command, without the name of the program."""
    block = re.search(r"^examples?:\n((?:  .+\n?)+)", text, re.MULTILINE)
    lines = block[1].splitlines() if block else []
    assert all(line.startswith(f"  {PROGRAM_PREFIX}") for line in lines)
    return [line.removeprefix(f"  {PROGRAM_PREFIX}") for line in lines]


EXAMPLES_BY_COMMAND = {
    name.removeprefix(PROGRAM_PREFIX): list_examples_in_help(parser.format_help())
    for name, parser in iterate_commands(make_parser((), with_all_commands=True))
    if parser.get_default("run") and " " in name
}
HELP_EXAMPLES = [example for examples in EXAMPLES_BY_COMMAND.values() for example in examples]


@pytest.fixture(scope="module")
def folder_and_url_of_cloud(tmp_path_factory):
    """Yield the folder of a small cloud with a decision, and the URL of its server."""
    folder = tmp_path_factory.mktemp("cloud")
    (folder / "cloud.yaml").write_text(FLEET_FILE_TEXT)
    (folder / "changes.yaml").write_text("- {drain: [cn2]}\n")
    (folder / "placement_sched.conf").write_text(CONF_TEXT)
    request = {"flavor": "m1.small", "instance_uuids": [INSTANCE_UUID]}
    event = {"time": "2026-11-01T00:00:00Z", "event": "create", "request": request}
    (folder / "trace.jsonl").write_text(json.dumps(event))
    (folder / "nova.conf").write_text("[DEFAULT]\ncpu_allocation_ratio = 2.0\n")
    together = {
        "requests": [{"request_spec": make_spec()}, {"request_spec": make_spec()}],
        "claim": False,
    }
    (folder / "cluster.json").write_text(json.dumps(together))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PLACEMENT_SCHED_CONFIG", "placement_sched.conf")
        assert main(["fleet", "load", "cloud.yaml"]) == 0
        settings = read_settings(["placement_sched.conf"])
        app = create_app(settings)
        body = {"request_spec": make_spec(INSTANCE_UUID), "claim": False}
        headers = {"X-Openstack-Request-Id": REQUEST_ID}
        AdminClient(app).post_json("/scheduler/v1/select_destinations", body, headers=headers)
        with closing(app), serve_application(app) as url:
            yield folder, url


@pytest.mark.parametrize("command", EXAMPLES_BY_COMMAND)
def test_help_of_every_command_has_an_example(command):
    examples = EXAMPLES_BY_COMMAND[command]
    assert examples
    assert [line for line in examples if f"{line} ".startswith(f"{command} ")] == examples


@pytest.mark.parametrize("example", HELP_EXAMPLES)
def test_example_in_the_help_runs_or_is_parsed(example, folder_and_url_of_cloud, monkeypatch):
    folder, url = folder_and_url_of_cloud
    arguments = convert_spelling(shlex.split(example.partition(" > ")[0]))
    if example in ONLY_PARSED_EXAMPLES:
        assert make_parser(arguments).parse_args(arguments).run
        return
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", "placement_sched.conf")
    arguments = [word.replace(EXAMPLE_SERVER_URL, url) for word in arguments]
    with (folder / "output").open("w") as output, redirect_stdout(output):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
    assert status == EXIT_STATUS_BY_EXAMPLE.get(example, 0)


def test_only_parsed_and_failing_examples_exist_in_the_help():
    assert ONLY_PARSED_EXAMPLES.keys() | EXIT_STATUS_BY_EXAMPLE.keys() <= set(HELP_EXAMPLES)
