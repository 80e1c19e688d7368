# SPDX-License-Identifier: Apache-2.0
"""A real nova, imported from its databases and over its APIs."""

from dataclasses import replace

import pytest

from placement_sched.model.image import Image
from placement_sched.operations.fleet.cloud import State
from placement_sched.operations.fleet.merge import merge_document
from placement_sched.schemas.yaml_file import YamlFile
from tests.conftest import make_settings
from tests.nova.cloud.cloud import run_nova_cloud
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.nova.cloud.own_commands import run_own_command, run_remote_command
from tests.support.reports import NOW

pytestmark = pytest.mark.system

#: The fields of hosts that no API shows, or that a heartbeat changes.
LOST_OF_HOSTS = {
    "cell_uuid": None, "supported_hv_specs": (), "stats": {}, "metrics": (), "unknown": (),
    "pci_device_pools": (), "numa_topology": None, "reserved": {}, "last_seen_up": NOW,
}  # fmt: skip
#: The parts of a request that no API shows, or that nova derives from the flavor.
LOST_OF_REQUESTS = {"numa_topology", "pci_requests", "flavor", "requested_resources"}


def read_file(path):
    def read(document):
        return merge_document(State(), document, make_settings("sqlite://"), NOW).after

    return YamlFile(path.read_text(), path.name).read(read)


def keep_fetched_facts(state):
    """Return the parts of a state that both imports have."""
    return {
        "groups": state.server_groups,
        "nodes": {uuid: replace(node, **LOST_OF_HOSTS) for uuid, node in state.nodes.items()},
        "services": {
            key: service._replace(last_seen_up=None) for key, service in state.services.items()
        },
        "providers": state.providers,
        "aggregates": state.aggregates,
        "instances": {
            uuid: replace(
                instance,
                request=keep_fetched_request(instance.request),
                image=keep_fetched_image(instance.image),
                system_metadata={},
            )
            for uuid, instance in state.instances.items()
        },
        # Nova does not name the type of its consumers.
        "consumers": {
            uuid: replace(claim, consumer_type=None) for uuid, claim in state.consumers.items()
        },
    }


def keep_fetched_request(request):
    hints = {key: hint for key, hint in request["scheduler_hints"].items() if key != "group"}
    common = {key: value for key, value in request.items() if key not in LOST_OF_REQUESTS}
    return common | {"scheduler_hints": hints}


def keep_fetched_image(image):
    properties = Image.from_document(image).properties.to_dict()
    return {key: image[key] for key in ("id", "disk_format", "container_format")} | properties


@pytest.mark.timeout(900)
def test_fetched_nova_equals_nova_imported_from_its_databases(tmp_path):
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        operator.create_flavors_and_images()
        cloud.start_scheduler(cloud.nova_scheduler)
        operator.run_openstack("server group create --policy anti-affinity apart")
        operator.run_openstack("aggregate create --zone az1 west")
        operator.run_openstack("aggregate add host west cn1")
        operator.run_openstack(
            "compute service set --disable --disable-reason disk cn2 nova-compute"
        )
        group = operator.read_openstack_json("server group show apart")["id"]
        operator.boot_active_server("grouped", f"--hint group={group} --property owner=me")
        operator.boot_active_server("pinned", "--availability-zone az1", "m1.small")
        operator.run_openstack("compute service set --enable cn2 nova-compute")
        moved = operator.boot_active_server("moved", "--availability-zone nova:cn2")
        operator.boot_active_server("hinted", "--hint rack=a")
        operator.run_openstack(f"server migrate {moved}")
        operator.wait_for_status(moved, "VERIFY_RESIZE")
        run_own_command(cloud, "nova", "sync")
        synced, fetched = tmp_path / "synced.yaml", tmp_path / "fetched.yaml"
        run_own_command(cloud, "fleet", "dump", str(synced))
        run_remote_command(cloud, "fleet", "fetch", str(fetched))
    source = YamlFile(fetched.read_text(), "fetched.yaml").data["source"]
    assert source["versions"]["compute"] == "2.100"
    assert list(source["in_flight"].values()) == [moved]
    assert "orphaned" not in source
    ours, theirs = keep_fetched_facts(read_file(fetched)), keep_fetched_facts(read_file(synced))
    for name, objects in ours.items():
        assert objects == theirs[name], name
