# SPDX-License-Identifier: Apache-2.0
"""What nova sends of the request on stdin, as JSON: its context, and payloads by publisher."""

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
OPTIONS = """
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
        file.write(OPTIONS)
        file.flush()
        CONF([], project="nova", default_config_files=[file.name])
    objects.register_all()
    rpc.init(CONF)
    told = json.load(sys.stdin)
    spec = request_spec(told)
    whose = context.RequestContext(told.get("user_id"), told.get("project_id"))
    legacy = {"request_spec": spec.to_legacy_request_spec_dict()}
    rpc.get_notifier("scheduler").info(whose, "scheduler.select_destinations.start", legacy)
    compute_utils.notify_about_scheduler_action(
        context=whose,
        request_spec=spec,
        action=fields.NotificationAction.SELECT_DESTINATIONS,
        phase=fields.NotificationPhase.START,
    )
    sent = [
        {"context": whose, "message": message, "priority": priority}
        for whose, message, priority, _retry in _impl_test.NOTIFICATIONS
    ]
    json.dump(sent, sys.stdout, default=lambda odd: f"<{type(odd).__name__}>")


def request_spec(told):
    return objects.RequestSpec(
        instance_uuid=told["instance_uuids"][0],
        num_instances=len(told["instance_uuids"]),
        project_id=told.get("project_id"),
        user_id=told.get("user_id"),
        availability_zone=told.get("availability_zone"),
        flavor=objects.Flavor(
            **told["flavor"],
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
        image=image(told.get("image")),
        is_bfv=False,
        force_hosts=told.get("force_hosts"),
        force_nodes=told.get("force_nodes"),
        ignore_hosts=told.get("ignore_hosts"),
        numa_topology=make_or_none(numa_topology, told.get("numa_topology")),
        pci_requests=make_or_none(pci_requests, told.get("pci_requests")),
        requested_destination=make_or_none(destination, told.get("requested_destination")),
        retry=make_or_none(retry, told.get("retry")),
        limits=objects.SchedulerLimits(),
        scheduler_hints={
            name: [value] if isinstance(value, str) else value
            for name, value in told.get("scheduler_hints", {}).items()
        },
        security_groups=objects.SecurityGroupList(
            objects=[objects.SecurityGroup(name=name) for name in told.get("security_groups", [])]
        ),
        instance_group=make_or_none(group, told.get("instance_group")),
        request_level_params=objects.RequestLevelParams(),
        requested_resources=[],
    )


def make_or_none(make, told):
    return None if told is None else make(told)


def image(told):
    if told is None:
        return None
    properties = objects.ImageMetaProps.from_dict(told["properties"])
    return objects.ImageMeta(**{**told, "properties": properties})


def numa_topology(told):
    cells = [
        objects.InstanceNUMACell(
            **{**cell, "cpuset": set(cell["cpuset"]), "pcpuset": set(cell["pcpuset"])}
        )
        for cell in told["cells"]
    ]
    policy = told["emulator_threads_policy"]
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=policy)


def pci_requests(told):
    requests = [objects.InstancePCIRequest(**one) for one in told["requests"]]
    return objects.InstancePCIRequests(requests=requests)


def destination(told):
    cell = objects.CellMapping(uuid=told["cell"], name=None, disabled=False)
    return objects.Destination(**{**told, "cell": cell})


def retry(told):
    nodes = [
        objects.ComputeNode(host=host, hypervisor_hostname=node) for host, node in told["hosts"]
    ]
    return objects.SchedulerRetries(
        num_attempts=told["num_attempts"], hosts=objects.ComputeNodeList(objects=nodes)
    )


def group(told):
    rules = {name: str(value) for name, value in told["rules"].items()}
    return objects.InstanceGroup(**{**told, "rules": rules})


if __name__ == "__main__":
    main()
