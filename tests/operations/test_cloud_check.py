# SPDX-License-Identifier: Apache-2.0
"""Findings of the comparison of the recorded cloud with placement."""

from datetime import timedelta

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.operations.checks import CloudFault, check_cloud
from placement_sched.store.compute import cells
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_report, make_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

CELL_UUID = uuid_of("cell")
COMPUTE_HEADERS = {"OpenStack-API-Version": "compute 2.96"}


@pytest.fixture
def cloud(app):
    """Two consistent hosts of a cell."""
    app.post_json("/scheduler/v1/compute_nodes", [make_report(name) for name in ("cn1", "cn2")])
    nodes = app.get("/scheduler/v1/compute_nodes").json["compute_nodes"]
    for node in nodes:
        body = make_report(node["host"], cell_uuid=CELL_UUID, uuid=node["uuid"])
        app.put_json(f"/scheduler/v1/compute_nodes/{node['uuid']}", body)
    database = app.app.services.database
    database.write(lambda connection: cells.put(connection, [NovaCell(uuid=CELL_UUID)], utcnow()))
    return app


def find_mismatches(app, clock=utcnow):
    """Return the number and the names of the findings of each kind."""
    services = app.app.services
    with services.database.read() as connection:
        mismatches = check_cloud(connection, services.settings, clock)
    return {mismatch.kind: (mismatch.number, mismatch.names) for mismatch in mismatches}


def read_uuid_of_node(app, host):
    (node,) = app.get(f"/scheduler/v1/compute_nodes?host={host}").json["compute_nodes"]
    return node["uuid"]


def rename_provider(app, uuid, name):
    path = f"/placement/resource_providers/{uuid}"
    app.put_json(path, {"name": name}, headers=LATEST_HEADERS)


def test_cloud_check_of_a_consistent_cloud_has_no_findings(cloud):
    assert find_mismatches(cloud) == {}


def test_cloud_check_reports_down_and_disabled_services(cloud):
    services = cloud.get("/compute/v2.1/os-services", headers=COMPUTE_HEADERS).json["services"]
    ids = {service["host"]: service["id"] for service in services}
    path = "/compute/v2.1/os-services"
    body = {"status": "disabled", "disabled_reason": "mend it"}
    cloud.put_json(f"{path}/{ids['cn1']}", body, headers=COMPUTE_HEADERS)
    cloud.put_json(f"{path}/{ids['cn2']}", {"forced_down": True}, headers=COMPUTE_HEADERS)
    assert find_mismatches(cloud) == {
        CloudFault.SERVICE_DISABLED: (1, ("cn1 (mend it)",)),
        CloudFault.SERVICE_FORCED_DOWN: (1, ("cn2",)),
    }
    later = find_mismatches(cloud, lambda: utcnow() + timedelta(days=9000))
    assert later[CloudFault.SERVICE_DOWN] == (1, ("cn1",))


def test_cloud_check_reports_unmatched_nodes_and_providers(cloud):
    node_uuid = read_uuid_of_node(cloud, "cn1")
    rename_provider(cloud, node_uuid, "elsewhere")
    assert find_mismatches(cloud) == {
        CloudFault.PROVIDER_OF_OTHER_NAME: (1, (f"cn1 ({node_uuid} is elsewhere)",))
    }
    provider_uuid = uuid_of("stranger")
    provider = {"name": "cn1", "uuid": provider_uuid}
    cloud.post_json("/placement/resource_providers", provider, headers=LATEST_HEADERS)
    assert find_mismatches(cloud)[CloudFault.PROVIDER_WITHOUT_NODE] == (
        1,
        (f"cn1 ({provider_uuid})",),
    )
    cloud.delete(f"/placement/resource_providers/{node_uuid}", headers=LATEST_HEADERS)
    assert find_mismatches(cloud) == {
        CloudFault.PROVIDER_OF_OTHER_UUID: (1, (f"cn1 ({provider_uuid})",)),
        CloudFault.PROVIDER_WITHOUT_NODE: (1, (f"cn1 ({provider_uuid})",)),
    }
    cloud.delete(f"/placement/resource_providers/{provider_uuid}", headers=LATEST_HEADERS)
    assert find_mismatches(cloud) == {CloudFault.NODE_WITHOUT_PROVIDER: (1, ("cn1",))}


def test_cloud_check_ignores_a_sharing_provider_without_node(cloud):
    pool = {"name": "pool", "uuid": uuid_of("pool")}
    cloud.post_json("/placement/resource_providers", pool, headers=LATEST_HEADERS)
    assert CloudFault.PROVIDER_WITHOUT_NODE in find_mismatches(cloud)
    shares = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "resource_provider_generation": 0}
    path = f"/placement/resource_providers/{pool['uuid']}/traits"
    cloud.put_json(path, shares, headers=LATEST_HEADERS)
    assert find_mismatches(cloud) == {}


def add_root(app, name, classes, child_classes=(), used=()):
    """Create a root provider with inventories and allocations."""
    uuids = [uuid_of(name), uuid_of(f"{name}_child")]
    for uuid, parent, inventories in zip(
        uuids, (None, uuids[0]), (classes, child_classes), strict=True
    ):
        if parent and not inventories:
            continue
        body = {"name": uuid if parent else name, "uuid": uuid, "parent_provider_uuid": parent}
        app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
        for resource_class in inventories:
            if resource_class.startswith("CUSTOM_"):
                path = f"/placement/resource_classes/{resource_class}"
                app.put(path, headers=LATEST_HEADERS)
        stock = {resource_class: {"total": 8} for resource_class in inventories}
        body = {"inventories": stock, "resource_provider_generation": 0}
        path = f"/placement/resource_providers/{uuid}/inventories"
        app.put_json(path, body, headers=LATEST_HEADERS)
    for resource_class in used:
        provider = uuids[resource_class in child_classes]
        body = {
            "allocations": {provider: {"resources": {resource_class: 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "CONTAINER",
        }
        path = f"/placement/allocations/{uuid_of(name + resource_class)}"
        app.put_json(path, body, headers=LATEST_HEADERS)


@pytest.mark.parametrize(
    ("classes", "more", "kind", "note"),
    [
        (["VCPU", "MEMORY_MB", "DISK_GB"], {}, CloudFault.PROVIDER_WITHOUT_NODE, ""),
        (["VCPU", "CUSTOM_PCI_8086_1572"], {}, CloudFault.PROVIDER_WITHOUT_NODE, ""),
        (["VCPU", "MEMORY_MB"], {"used": ["VCPU"]}, CloudFault.PROVIDER_IN_USE, ""),
        (["VCPU"], {"child_classes": ["VGPU"], "used": ["VGPU"]}, CloudFault.PROVIDER_IN_USE, ""),
        (
            ["IPV4_ADDRESS"],
            {"used": ["IPV4_ADDRESS"]},
            CloudFault.PROVIDER_OF_OTHER_SERVICE,
            ", a segment of Neutron",
        ),
        (
            ["CUSTOM_BAREMETAL_GOLD"],
            {},
            CloudFault.PROVIDER_OF_OTHER_SERVICE,
            ", a node of Ironic, with CUSTOM_BAREMETAL_GOLD",
        ),
        (
            ["VCPU"],
            {"child_classes": ["FPGA"]},
            CloudFault.PROVIDER_OF_OTHER_SERVICE,
            ", devices of Cyborg",
        ),
        (
            ["NET_BW_EGR_KILOBIT_PER_SEC"],
            {},
            CloudFault.PROVIDER_OF_OTHER_SERVICE,
            ", an agent of Neutron",
        ),
        (
            ["VCPU", "CUSTOM_LICENSE", "SRIOV_NET_VF"],
            {},
            CloudFault.PROVIDER_OF_OTHER_SERVICE,
            ", with CUSTOM_LICENSE, SRIOV_NET_VF, not of nova",
        ),
    ],
)
def test_cloud_check_advises_to_delete_only_unused_roots_of_nova(cloud, classes, more, kind, note):
    add_root(cloud, "root", classes, **more)
    assert find_mismatches(cloud) == {kind: (1, (f"root ({uuid_of('root')}{note})",))}
    assert ("delete" in kind.fix) is (kind is CloudFault.PROVIDER_WITHOUT_NODE)


def test_cloud_check_reports_differing_provider_aggregates(cloud):
    aggregate = cloud.post_json(
        "/compute/v2.1/os-aggregates", {"aggregate": {"name": "racks"}}, headers=COMPUTE_HEADERS
    ).json["aggregate"]
    action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
    cloud.post_json(action, {"add_host": {"host": "cn1"}}, headers=COMPUTE_HEADERS)
    assert find_mismatches(cloud) == {}
    for host, members in (("cn1", []), ("cn2", [aggregate["uuid"]])):
        path = f"/placement/resource_providers/{read_uuid_of_node(cloud, host)}/aggregates"
        generation = cloud.get(path, headers=LATEST_HEADERS).json["resource_provider_generation"]
        body = {"aggregates": members, "resource_provider_generation": generation}
        cloud.put_json(path, body, headers=LATEST_HEADERS)
    assert find_mismatches(cloud) == {
        CloudFault.AGGREGATE_LACKS_HOSTS: (1, ("racks (cn1)",)),
        CloudFault.AGGREGATE_HAS_OTHER_HOSTS: (1, ("racks (cn2)",)),
    }


def test_cloud_check_reports_instances_without_allocations(cloud):
    for number, place in ((1, {"host": "cn1", "node": "cn1"}), (2, {})):
        cloud.put_json(f"/scheduler/v1/instances/{make_uuid(number)}", place)
    assert find_mismatches(cloud) == {CloudFault.INSTANCE_WITHOUT_ALLOCATIONS: (1, (make_uuid(1),))}


@pytest.mark.all_databases
def test_cloud_check_reports_a_disabled_cell(cloud):
    cell = NovaCell(uuid=CELL_UUID, name="one", disabled=True)
    database = cloud.app.services.database
    database.write(lambda connection: cells.put(connection, [cell], utcnow()))
    assert find_mismatches(cloud) == {CloudFault.CELL_DISABLED: (1, ("one",))}


def test_cloud_check_reports_a_duplicate_node_name_with_hosts(cloud):
    body = make_report("cn3", hypervisor_hostname="cn1", cell_uuid=CELL_UUID, inventories=False)
    cloud.post_json("/scheduler/v1/compute_nodes", [body])
    assert find_mismatches(cloud)[CloudFault.NAME_OF_SEVERAL_NODES] == (1, ("cn1 (on cn1, cn3)",))


def test_statement_count_of_cloud_check_is_independent_of_hosts(cloud):
    counts = set()
    for start in (10, 100):
        reports = [
            make_report(f"cn{number}", cell_uuid=CELL_UUID) for number in range(start, start * 2)
        ]
        cloud.post_json("/scheduler/v1/compute_nodes", reports)
        with record_statements(cloud.app.services.database) as seen:
            assert find_mismatches(cloud) == {}
        counts.add(len(seen))
    assert len(counts) == 1
