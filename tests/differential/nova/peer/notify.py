# SPDX-License-Identifier: Apache-2.0
"""Prints the notifications of nova for the request on stdin, as JSON."""

import json
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import nova.conf  # noqa: E402
from nova import context, objects, rpc  # noqa: E402
from nova.compute import utils as compute_utils  # noqa: E402
from nova.objects import fields  # noqa: E402
from oslo_messaging.notify import _impl_test  # noqa: E402

CONF = nova.conf.CONF
NOVA_CONF = """
[DEFAULT]
host = ctl1
transport_url = fake:/
[oslo_messaging_notifications]
driver = test
[notifications]
notification_format = both
"""


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(NOVA_CONF)
        file.flush()
        CONF([], project="nova", default_config_files=[file.name])
    objects.register_all()
    rpc.init(CONF)
    request = json.load(sys.stdin)
    spec = build_request_spec(request)
    sender = context.RequestContext(request.get("user_id"), request.get("project_id"))
    legacy = {"request_spec": spec.to_legacy_request_spec_dict()}
    rpc.get_notifier("scheduler").info(sender, "scheduler.select_destinations.start", legacy)
    compute_utils.notify_about_scheduler_action(
        context=sender,
        request_spec=spec,
        action=fields.NotificationAction.SELECT_DESTINATIONS,
        phase=fields.NotificationPhase.START,
    )
    sent = [
        {"context": sender, "message": message, "priority": priority}
        for sender, message, priority, _retry in _impl_test.NOTIFICATIONS
    ]
    json.dump(sent, sys.stdout, default=lambda value: f"<{type(value).__name__}>")


def build_request_spec(document):
    return objects.RequestSpec(
        instance_uuid=document["instance_uuids"][0],
        num_instances=len(document["instance_uuids"]),
        project_id=document.get("project_id"),
        user_id=document.get("user_id"),
        availability_zone=document.get("availability_zone"),
        flavor=objects.Flavor(
            **document["flavor"],
            disabled=False,
            is_public=True,
            rxtx_factor=1.0,
            vcpu_weight=0,
            projects=[],
            description=None,
            created_at=None,
            updated_at=None,
            deleted_at=None,
            deleted=False,
        ),
        image=build_image(document.get("image")),
        is_bfv=False,
        force_hosts=document.get("force_hosts"),
        force_nodes=document.get("force_nodes"),
        ignore_hosts=document.get("ignore_hosts"),
        numa_topology=make_or_none(build_numa_topology, document.get("numa_topology")),
        pci_requests=make_or_none(build_pci_requests, document.get("pci_requests")),
        requested_destination=make_or_none(
            build_destination, document.get("requested_destination")
        ),
        retry=make_or_none(build_retry, document.get("retry")),
        limits=objects.SchedulerLimits(),
        scheduler_hints={
            name: [value] if isinstance(value, str) else value
            for name, value in document.get("scheduler_hints", {}).items()
        },
        security_groups=objects.SecurityGroupList(
            objects=[
                objects.SecurityGroup(name=name) for name in document.get("security_groups", [])
            ]
        ),
        instance_group=make_or_none(build_group, document.get("instance_group")),
        request_level_params=objects.RequestLevelParams(),
        requested_resources=[],
    )


def make_or_none(make, document):
    return None if document is None else make(document)


def build_image(document):
    if document is None:
        return None
    properties = objects.ImageMetaProps.from_dict(document["properties"])
    return objects.ImageMeta(**{**document, "properties": properties})


def build_numa_topology(document):
    cells = [
        objects.InstanceNUMACell(
            **{**cell, "cpuset": set(cell["cpuset"]), "pcpuset": set(cell["pcpuset"])}
        )
        for cell in document["cells"]
    ]
    policy = document["emulator_threads_policy"]
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=policy)


def build_pci_requests(document):
    requests = [objects.InstancePCIRequest(**request) for request in document["requests"]]
    return objects.InstancePCIRequests(requests=requests)


def build_destination(document):
    cell = objects.CellMapping(uuid=document["cell"], name=None, disabled=False)
    return objects.Destination(**{**document, "cell": cell})


def build_retry(document):
    nodes = [
        objects.ComputeNode(host=host, hypervisor_hostname=node) for host, node in document["hosts"]
    ]
    return objects.SchedulerRetries(
        num_attempts=document["num_attempts"], hosts=objects.ComputeNodeList(objects=nodes)
    )


def build_group(document):
    rules = {name: str(value) for name, value in document["rules"].items()}
    return objects.InstanceGroup(**{**document, "rules": rules})


if __name__ == "__main__":
    main()
