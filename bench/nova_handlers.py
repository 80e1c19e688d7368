# SPDX-License-Identifier: Apache-2.0
"""CPU time of nova's filters and weighers, for ``selecting.py``.

The interpreter with nova runs it. It reads hosts as JSON from standard input, and prints the CPU
milliseconds of each round.
"""

import json
import os
import sys
import time

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")

from nova import conf, config, context, objects
from nova.scheduler import filters, host_manager, weights
from oslo_utils import timeutils

objects.register_all()


def _build_state(document: dict) -> host_manager.HostState:
    name, cell = document["host"], "00000000-0000-4000-8000-00000000000c"
    host = host_manager.HostState(name, document["node"], cell)
    for attribute, value in document["attributes"].items():
        setattr(host, attribute, value)
    now = timeutils.utcnow()
    host.service = {"host": name, "disabled": False, "forced_down": False}
    host.service |= {"last_seen_up": now, "updated_at": now}
    return host


def _build_spec(sizes: dict) -> objects.RequestSpec:
    properties = objects.ImageMetaProps(hw_architecture="x86_64")
    return objects.RequestSpec(
        context=context.RequestContext("u", "p"),
        flavor=objects.Flavor(
            name="m1", flavorid="1", ephemeral_gb=0, swap=0, extra_specs={}, **sizes
        ),
        image=objects.ImageMeta(min_ram=0, min_disk=0, properties=properties),
        num_instances=1,
        project_id="p",
        instance_group=None,
        scheduler_hints={},
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        is_bfv=False,
    )


def main() -> None:
    """Filter and weigh the hosts in each round, with nova's defaults."""
    document = json.load(sys.stdin)
    config.parse_args(["nova-scheduler"], default_config_files=[])
    hosts = [_build_state(each) for each in document["hosts"]]
    spec = _build_spec(document["flavor"])
    classes = {kind.__name__: kind for kind in filters.all_filters()}
    enabled = [classes[name]() for name in conf.CONF.filter_scheduler.enabled_filters]
    weighers = [kind() for kind in weights.all_weighers()]
    rounds = []
    for _ in range(document["rounds"]):
        start = time.process_time()
        passed = list(filters.HostFilterHandler().get_filtered_objects(enabled, hosts, spec))
        weights.HostWeightHandler().get_weighed_objects(weighers, passed, spec)
        rounds.append({"ms": (time.process_time() - start) * 1000, "passed": len(passed)})
    json.dump(rounds, sys.stdout)


if __name__ == "__main__":
    main()
