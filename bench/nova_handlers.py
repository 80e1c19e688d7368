# SPDX-License-Identifier: Apache-2.0
"""nova's filters and weighers at work on host states, for ``selecting.py``.

Run by the Python of a virtual environment that has nova: reads the hosts as JSON from standard
input, prints the CPU milliseconds of both handlers, a round each.
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


def state(shown: dict) -> host_manager.HostState:
    """Return a host state of what was shown of a host."""
    host = host_manager.HostState(
        shown["host"], shown["node"], "00000000-0000-4000-8000-00000000000c"
    )
    for name, value in shown["attributes"].items():
        setattr(host, name, value)
    host.service = {
        "host": shown["host"],
        "disabled": False,
        "last_seen_up": timeutils.utcnow(),
        "updated_at": timeutils.utcnow(),
        "forced_down": False,
    }
    return host


def request(shown: dict) -> objects.RequestSpec:
    """Return the request."""
    flavor = objects.Flavor(
        name="m1", flavorid="1", ephemeral_gb=0, swap=0, extra_specs={}, **shown
    )
    image = objects.ImageMeta(
        min_ram=0, min_disk=0, properties=objects.ImageMetaProps(hw_architecture="x86_64")
    )
    return objects.RequestSpec(
        context=context.RequestContext("u", "p"),
        flavor=flavor,
        image=image,
        num_instances=1,
        project_id="p",
        instance_group=None,
        scheduler_hints={},
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        is_bfv=False,
    )


def main() -> None:
    """Filter and weigh the hosts again and again, with nova's defaults."""
    asked = json.load(sys.stdin)
    config.parse_args(["nova-scheduler"], default_config_files=[])
    hosts = [state(one) for one in asked["hosts"]]
    spec = request(asked["flavor"])
    enabled = conf.CONF.filter_scheduler.enabled_filters
    found = {kind.__name__: kind for kind in filters.all_filters()}
    chosen = [found[name]() for name in enabled]
    filtering = filters.HostFilterHandler()
    weighing = weights.HostWeightHandler()
    weighers = [kind() for kind in weights.all_weighers()]
    rounds = []
    for _ in range(asked["rounds"]):
        began = time.process_time()
        passed = list(filtering.get_filtered_objects(chosen, hosts, spec))
        between = time.process_time()
        weighed = weighing.get_weighed_objects(weighers, passed, spec)
        ended = time.process_time()
        rounds.append(
            {
                "filter_ms": (between - began) * 1000,
                "weigh_ms": (ended - between) * 1000,
                "passed": len(passed),
                "best": weighed[0].weight if weighed else None,
            }
        )
    json.dump(rounds, sys.stdout)


if __name__ == "__main__":
    main()
