# SPDX-License-Identifier: Apache-2.0
"""nova's client of the scheduler in nova's environment, called with lines of JSON."""

import json
import logging
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import nova.conf  # noqa: E402
from nova import context, exception, objects, rpc  # noqa: E402
from nova.scheduler.client.query import SchedulerQueryClient  # noqa: E402
from oslo_serialization import jsonutils  # noqa: E402

CONF = nova.conf.CONF
NOVA_CONF = """
[DEFAULT]
transport_url = {url}
control_exchange = nova
long_rpc_timeout = 120
"""
FLAVOR_SIZES = {"vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}


def connect_to_bus(url, cap):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(NOVA_CONF.format(url=url))
        file.flush()
        CONF([], project="nova", default_config_files=[file.name])
    CONF.set_override("scheduler", cap, group="upgrade_levels")
    if rpc.TRANSPORT is not None:
        rpc.cleanup()
    rpc.init(CONF)


def build_request_spec(uuids, memory_mb):
    flavor = objects.Flavor(
        id=1, flavorid="1", name="m1.tiny", memory_mb=memory_mb, extra_specs={}, **FLAVOR_SIZES
    )
    return objects.RequestSpec(
        flavor=flavor,
        image=objects.ImageMeta.from_dict({"id": uuids[0], "properties": {}}),
        project_id="demo",
        user_id="ann",
        num_instances=len(uuids),
        instance_uuid=uuids[0],
        is_bfv=False,
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        availability_zone=None,
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        limits=objects.SchedulerLimits(),
        scheduler_hints={},
        instance_group=None,
        requested_destination=None,
        retry=None,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
    )


def select_destinations(uuids, memory_mb, whole):
    user = context.RequestContext("ann", "demo")
    try:
        selections = SchedulerQueryClient().select_destinations(
            user,
            build_request_spec(uuids, memory_mb),
            uuids,
            return_objects=whole,
            return_alternates=whole,
        )
    except exception.NovaException as failure:
        kind = type(failure).__mro__[1]  # oslo.messaging adds a subclass
        return {"class": kind.__name__, "words": failure.format_message(), **failure.kwargs}
    if not whole:
        return {"hosts": [row["host"] for row in selections]}
    versions = {each.allocation_request_version for hosts in selections for each in hosts}
    return {
        "hosts": [[each.service_host for each in hosts] for hosts in selections],
        "versions": sorted(versions),
        "requests": [json.loads(hosts[0].allocation_request) for hosts in selections],
    }


def send_notification(method, *arguments):
    client, admin = SchedulerQueryClient(), context.get_admin_context()
    if method in {"update_aggregates", "delete_aggregate"}:
        (row,) = arguments
        aggregate = objects.Aggregate(admin, **row)
        getattr(client, method)(admin, [aggregate] if method == "update_aggregates" else aggregate)
    elif method == "update_instance_info":
        host, uuids = arguments
        instances = [objects.Instance(admin, uuid=uuid, host=host) for uuid in uuids]
        client.update_instance_info(admin, host, objects.InstanceList(objects=instances))
    else:
        getattr(client, method)(admin, *arguments)


def main():
    logging.disable(logging.CRITICAL)
    objects.register_all()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        sys.stdout.write(jsonutils.dumps(globals()[name](*arguments)) + "\n")
        sys.stdout.flush()


main()
