# SPDX-License-Identifier: Apache-2.0
"""Fetched files of our own APIs and of generated clouds."""

import re
from dataclasses import replace
from datetime import datetime

import pytest
import requests
import yaml
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from placement_sched.clients.api_reader import ApiReader, CallPool
from placement_sched.clients.cloud_reader import read_cloud
from placement_sched.errors import Invalid
from placement_sched.extensions.fleet.anonymize_command import anonymize_text
from placement_sched.extensions.fleet.demo import sample_cloud
from placement_sched.extensions.fleet.fetch import (
    FACTS,
    build_anonymised_file,
    build_cloud,
    build_file,
    read_earlier,
)
from placement_sched.extensions.fleet.names import Names
from placement_sched.model.compute_node import UNKNOWN_FIELDS
from placement_sched.model.flavor import Flavor
from placement_sched.operations.fleet.cloud import State, drop_row_id, read_state
from placement_sched.operations.fleet.load import load
from placement_sched.operations.fleet.merge import merge_document
from placement_sched.schemas.yaml_file import YamlFile
from tests.clients.generated_apis import BASES, GeneratedCloud, build_uuid
from tests.clients.in_process import FunctionTransport, build_wsgi_handler

NOW = datetime(2026, 1, 2, 12)
AGGREGATE = "0f3c2d1e-5a6b-4c7d-8e9f-000000000001"
#: The keys of a report that a fetched host lacks, as the guide lists them.
LOST_OF_HOSTS = {
    "cell_uuid": None,
    "supported_hv_specs": (),
    "metrics": (),
    "pci_device_pools": (),
    "numa_topology": None,
    "unknown": tuple(UNKNOWN_FIELDS),
}
FILE_TEXT = f"""
flavors:
  - {{name: small, vcpus: 2, memory_mb: 4096, root_gb: 20, extra_specs: {{"hw:cpu_sockets": "1"}}}}
  - {{name: secret, vcpus: 1, memory_mb: 512, is_public: false, projects: [web], swap: 64}}
images:
  - {{name: linux, status: active, disk_format: qcow2, properties: {{hw_disk_bus: virtio}}}}
  - {{name: windows, properties: {{"trait:CUSTOM_WINDOWS": required, hw_boot_menu: "yes"}}}}
aggregates:
  - {{name: az1, availability_zone: az1, hosts: "cn[1-2]"}}
  - {{name: fast, metadata: {{ssd: "true"}}, hosts: [cn2]}}
server_groups:
  - {{name: apart, policy: anti-affinity, rules: {{max_server_per_host: 2}}, project: web, user: a}}
hosts:
  - host: cn[1-3]
    vcpus: 16
    memory_mb: 65536
    local_gb: 0
    vcpus_used: 2
    memory_mb_used: 4608
    reserved: {{MEMORY_MB: 512}}
    cpu_allocation_ratio: 2.0
    hypervisor_type: QEMU
    hypervisor_version: 8000000
    host_ip: 192.0.2.[1-3]
    cpu_info: '{{"arch": "x86_64"}}'
    supported_hv_specs: [[x86_64, kvm, hvm]]
    stats: {{num_instances: 1, io_workload: 0}}
    traits: [HW_CPU_X86_AVX2, CUSTOM_FAST]
    provider_aggregates: [{AGGREGATE}]
    inventories: {{CUSTOM_LICENCE: {{total: 4, reserved: 1, step_size: 1}}}}
    providers:
      - name: "{{root}}_gpu[0-1]"
        traits: [CUSTOM_GPU]
        inventories: {{VGPU: {{total: 8, max_unit: 1}}}}
  - host: numa
    vcpus: 8
    memory_mb: 8192
    numa_topology: {{cells: [{{id: 0, cpuset: [0], memory: 1}}]}}
services:
  - {{host: cn3, status: disabled, disabled_reason: a faulty DIMM}}
  - {{host: numa, forced_down: true}}
providers:
  - name: storage
    inventories: {{DISK_GB: {{total: 1000}}}}
    traits: [MISC_SHARES_VIA_AGGREGATE]
    aggregates: [{AGGREGATE}]
instances:
  - name: web[1-2]
    host: [cn1, cn2]
    flavor: small
    image: linux
    project: web
    user: ann
    server_group: apart
    request: {{availability_zone: az1, scheduler_hints: {{rack: [a]}}, is_bfv: false}}
    allocations:
      cn1: {{VCPU: 2, MEMORY_MB: 4096}}
      cn1_gpu0: {{VGPU: 1}}
      storage: {{DISK_GB: 20}}
  - name: volume
    host: cn2
    flavor: small
    project: web
    user: ann
    task_state: migrating
    request: {{availability_zone: null, scheduler_hints: {{}}, is_bfv: true}}
  - name: old
    host: cn3
    flavor: {{name: gone, vcpus: 1, memory_mb: 1}}
    image: windows
    project: web
    user: ann
    request: {{availability_zone: null, scheduler_hints: {{}}, is_bfv: false}}
    allocations: {{cn3: {{VCPU: 1, MEMORY_MB: 1}}}}
  - name: moving
    uuid: 00000000-0000-4000-8000-000000000018
    host: cn1
    flavor: small
    project: web
    user: eve
    request: {{availability_zone: null, scheduler_hints: {{}}, is_bfv: true}}
    allocations: {{cn2: {{VCPU: 2, MEMORY_MB: 4096}}}}
  - {{name: shelved, host: null, vm_state: shelved_offloaded, flavor: secret, image: linux,
     project: web, user: ann,
     request: {{availability_zone: null, scheduler_hints: {{}}, is_bfv: false}}}}
allocations:
  - consumer: 00000000-0000-4000-8000-000000000009
    project: web
    user: ann
    type: MIGRATION
    allocations: {{cn3: {{VCPU: 1}}}}
  - consumer: 00000000-0000-4000-8000-000000000008
    project: web
    user: eve
    type: MIGRATION
    allocations: {{cn1: {{VCPU: 2, MEMORY_MB: 4096}}}}
"""


class ReadOnlyTransport(FunctionTransport):
    """Transport to our own application that rejects all methods but GET."""

    def send(self, request, **options):
        assert request.method == "GET"
        return super().send(request, **options)


def open_own_readers(app, pool):
    session = requests.Session()
    session.mount("http://cloud", ReadOnlyTransport(build_wsgi_handler(app)))
    paths = {**BASES, "image": "/image"}
    placement, compute, image = (
        ApiReader(
            Adapter(
                Session(auth=Token(f"http://cloud{path}", "admin"), session=session),
                endpoint_override=f"http://cloud{path}",
            ),
            kind,
            pool,
        )
        for kind, path in paths.items()
    )
    return placement, compute, image


@pytest.fixture
def fetch_own_cloud(sqlite_app, sqlite_database, sqlite_settings):
    """Return a function that loads a document and fetches it."""

    def fetch(document, now=NOW):
        sqlite_database.write(lambda connection: load(connection, document, sqlite_settings, now))
        with CallPool(4) as pool:
            readers = open_own_readers(sqlite_app.app, pool)
            reading = read_cloud(readers, pool, lambda: now, all_aggregates=True)
        cloud = build_cloud(reading, sqlite_settings, is_administrator=True)
        text = build_file(cloud, reading, "own", sqlite_settings)
        with sqlite_database.read() as connection:
            state = read_state(connection, sqlite_settings.unknown_owner)
        return state, cloud, text

    return fetch


def keep_fetched_facts(state):
    """Return a state without the facts that the guide lists as lost."""
    nodes = {
        uuid: replace(
            node,
            **LOST_OF_HOSTS,
            reserved={name: amount for name, amount in node.reserved.items() if amount},
            stats={"num_instances": node.stats.get("num_instances", "0")},
        )
        for uuid, node in state.nodes.items()
    }
    # An embedded flavor has all its fields.
    instances = {
        uuid: replace(item, flavor=drop_row_id(Flavor.from_document(item.flavor).as_document()))
        for uuid, item in state.instances.items()
    }
    return replace(state, nodes=nodes, instances=instances)


def load_text(text, settings):
    read = lambda data: merge_document(State(), data, settings, NOW)  # noqa: E731
    return YamlFile(text, "fetched").read(read).after


@pytest.mark.slow
def test_fetched_cloud_equals_its_dump_except_for_facts_of_no_api(fetch_own_cloud, empty_cloud):
    state, cloud, text = fetch_own_cloud(YamlFile(FILE_TEXT, "cloud").data)
    expected = keep_fetched_facts(state)
    for name in State.__dataclass_fields__:
        if name != "generations":
            assert getattr(cloud.state, name) == getattr(expected, name), name
    restored = empty_cloud()
    restored.load(text)
    assert restored.state == expected
    assert cloud.orphaned == ("00000000-0000-4000-8000-000000000009",)
    assert cloud.in_flight == {
        "00000000-0000-4000-8000-000000000008": "00000000-0000-4000-8000-000000000018"
    }
    assert "migrations" not in cloud.missing


@pytest.mark.slow
def test_fetched_demo_equals_its_dump_except_for_facts_of_no_api(fetch_own_cloud):
    state, cloud, _ = fetch_own_cloud(sample_cloud(NOW))
    expected = keep_fetched_facts(state)
    assert (cloud.state.nodes, cloud.state.services) == (expected.nodes, expected.services)
    assert (cloud.state.providers, cloud.state.aggregates) == (state.providers, state.aggregates)
    assert cloud.state.consumers == state.consumers
    # A server without a recorded request is a server with an empty request.
    fetched = {uuid: replace(item, request=None) for uuid, item in cloud.state.instances.items()}
    assert fetched == expected.instances


def fetch_generated(cloud, settings, *, is_administrator=True, earlier=None):
    with CallPool(4, sleep=lambda _: None) as pool:
        reading = read_cloud(cloud.open_readers(pool), pool, lambda: NOW, earlier=earlier)
    fetched = build_cloud(reading, settings, is_administrator=is_administrator)
    return fetched, build_file(fetched, reading, "prod", settings), reading


def test_source_says_when_and_what_is_missing(sqlite_settings):
    cloud = GeneratedCloud(hosts=2, newest={"placement": "1.39", "compute": "2.95"})
    _, text, _ = fetch_generated(cloud, sqlite_settings)
    source = YamlFile(text, "file").data["source"]
    assert source["cloud"] == "prod"
    assert source["fetched"] == {"from": "2026-01-02T12:00:00Z", "to": "2026-01-02T12:00:00Z"}
    assert source["versions"] == {"placement": "1.39", "compute": "2.95"}
    assert source["generations"] == {build_uuid(1, 0): 1, build_uuid(1, 1): 1}
    assert source["missing"]["host_numa"] == "no API shows it"
    assert "2.96" in source["missing"]["pinned_zones"]
    assert source["missing"].keys() <= FACTS.keys()


def test_private_flavors_are_completed_from_servers_for_other_callers(sqlite_settings):
    cloud = GeneratedCloud(hosts=2, servers=2)
    flavor = {**cloud.build_server(0)["flavor"], "original_name": "hidden", "vcpus": 8}
    cloud.server_changes[1] = {"flavor": flavor}
    fetched, _, _ = fetch_generated(cloud, sqlite_settings, is_administrator=False)
    (hidden,) = [each.flavor for each in fetched.state.flavors.values() if each.name == "hidden"]
    assert (hidden.vcpus, hidden.is_public) == (8, False)
    assert fetched.state.instances[build_uuid(3, 1)].flavor["flavorid"] == hidden.flavorid
    assert {"private_flavors", "other_server_groups", "private_images"} <= fetched.missing.keys()
    fetched, _, _ = fetch_generated(cloud, sqlite_settings)
    assert {each.name for each in fetched.state.flavors.values()} == {"tiny", "private"}


def test_consumers_without_a_server_are_in_flight_or_orphaned(sqlite_settings):
    cloud = GeneratedCloud(hosts=2, servers=2)
    migration, new, lost, foreign = (build_uuid(8, number) for number in range(4))

    def build_consumer(kind):
        return {
            "allocations": {build_uuid(1, 0): {"resources": {"VCPU": 2}}}, "project_id": "p",
            "user_id": "u", "consumer_type": kind,
        }  # fmt: skip

    cloud.extra_consumers = {
        migration: build_consumer("MIGRATION"),
        lost: build_consumer("unknown"),
        foreign: build_consumer("ZUN"),
    }
    cloud.migrations = [{"id": 1, "uuid": migration, "instance_uuid": build_uuid(3, 1)}]

    def create(number):
        if number == 1:
            cloud.extra_consumers[new] = build_consumer("INSTANCE")
            cloud.generations[build_uuid(1, 0)] = 2

    cloud.faults["/placement/traits"] = create
    fetched, text, _ = fetch_generated(cloud, sqlite_settings)
    assert fetched.in_flight == {migration: build_uuid(3, 1), new: None}
    assert fetched.orphaned == (lost,)
    consumers = load_text(text, sqlite_settings).consumers
    assert {migration, new, lost, foreign} <= consumers.keys()
    assert consumers[foreign].consumer_type == "ZUN"


def test_earlier_file_saves_the_calls_of_unchanged_providers(sqlite_settings):
    cloud = GeneratedCloud(hosts=20, children=1, servers=40)
    fetched, text, reading = fetch_generated(cloud, sqlite_settings)
    earlier = read_earlier(text, "file", "prod", sqlite_settings, NOW)
    assert {uuid: item.allocations for uuid, item in earlier.providers.items()} == {
        uuid: item.allocations for uuid, item in reading.providers.items()
    }
    again, _, second = fetch_generated(cloud, sqlite_settings, earlier=earlier)
    assert second.reused == 40
    assert second.calls == reading.calls - 80
    assert again.state == fetched.state


@pytest.fixture
def busy_cloud():
    """A cloud with a migration, an orphaned consumer, and a cell that is down."""
    cloud = GeneratedCloud(hosts=20, children=1, servers=40)
    for number in range(2):
        cloud.extra_consumers[build_uuid(8, number)] = {
            "allocations": {build_uuid(1, 0): {"resources": {"VCPU": 2}}}, "project_id": "p",
            "user_id": "u", "consumer_type": "unknown",
        }  # fmt: skip
    cloud.migrations = [{"id": 1, "uuid": build_uuid(8, 0), "instance_uuid": build_uuid(3, 1)}]
    services = cloud._get_compute_os_services((), {})["services"]
    services.append({"binary": "nova-compute", "host": "lost1", "id": build_uuid(6, 99)})
    cloud._get_compute_os_services = lambda *_: {"services": services}
    return cloud


def test_anonymised_reading_equals_the_anonymised_file_of_the_reading(
    busy_cloud, sqlite_settings, tmp_path
):
    fetched, text, reading = fetch_generated(busy_cloud, sqlite_settings)
    shared, names = build_anonymised_file(fetched, reading, "prod", sqlite_settings, Names())
    names.write(tmp_path / "names.json")
    assert load_text(shared, sqlite_settings) == load_text(
        anonymize_text(text, "file", sqlite_settings, tmp_path / "names.json"), sqlite_settings
    )
    source, expected = (yaml.safe_load(each)["source"] for each in (shared, text))
    assert source["missing"].pop("down_cells") == "the reason is not shared"
    assert expected["missing"].pop("down_cells").endswith("1 hosts, such as lost1")
    del source["missing"]["provider_aggregates"], expected["missing"]["provider_aggregates"]
    assert names.restore(source) == expected


def test_anonymised_reading_has_no_name(busy_cloud, sqlite_settings):
    fetched, _, reading = fetch_generated(busy_cloud, sqlite_settings)
    text, _ = build_anonymised_file(fetched, reading, "prod", sqlite_settings, Names())
    words = set(re.findall(r"[\w-]+", text))
    names = {"cn1", "cn1_0", "s1", "tiny", "agg1", "cirros", "prod", "lost1", "p", "u"}
    assert names & words == set()
    assert not any(build_uuid(kind, 1) in words for kind in range(1, 9))
    assert "CUSTOM_T_1" not in words


def test_earlier_anonymised_file_saves_the_calls_of_unchanged_providers(
    busy_cloud, sqlite_settings
):
    fetched, _, reading = fetch_generated(busy_cloud, sqlite_settings)
    text, names = build_anonymised_file(fetched, reading, "prod", sqlite_settings, Names())
    earlier = read_earlier(text, "file", "prod", sqlite_settings, NOW, names)
    for uuid, item in reading.providers.items():
        provider = earlier.providers[uuid]
        for name in ("uuid", "parent", "generation", "inventories", "allocations"):
            assert getattr(provider, name) == getattr(item, name), (uuid, name)
    again, _, second = fetch_generated(busy_cloud, sqlite_settings, earlier=earlier)
    # The provider of the consumers without a server is read again.
    assert second.reused == 39
    assert again.state == fetched.state
    with pytest.raises(Invalid, match="the file of names has no cloud-"):
        read_earlier(text, "file", "prod", sqlite_settings, NOW, Names())
    with pytest.raises(Invalid, match="file is a file of the cloud cloud-"):
        read_earlier(text, "file", "prod", sqlite_settings, NOW)
    with pytest.raises(Invalid, match="file is a file of the cloud prod: "):
        read_earlier(text, "file", "test", sqlite_settings, NOW, names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "file is no fetched file"),
        ("version: 2", "file:1:10: "),
        ("flavors: [", "file:2:1: did not find"),
        (
            "source: {cloud: test, fetched: {from: 2026-01-01, to: 2026-01-02}}",
            "a file of the cloud test",
        ),
    ],
    ids=["empty", "newer", "no YAML", "another cloud"],
)
def test_other_files_are_not_replaced(sqlite_settings, text, words):
    with pytest.raises(Invalid, match=words):
        read_earlier(text, "file", "prod", sqlite_settings, NOW)


def test_value_that_no_file_can_have_is_an_error(sqlite_settings):
    cloud = GeneratedCloud(hosts=1, servers=1)
    cloud.server_changes[0] = {"name": "x" * 256}
    with pytest.raises(
        Invalid, match=r"the cloud prod has a value that no file can have:.*instances"
    ):
        fetch_generated(cloud, sqlite_settings)
