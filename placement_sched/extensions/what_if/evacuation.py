# SPDX-License-Identifier: Apache-2.0
"""Plans to evacuate hosts that are down.

nova rebuilds each instance on another host. Until the old host is back and has removed it, the
instance has allocations on both hosts. Sources: compute API reference ("Evacuate Server"), nova's
guide ("Evacuate instances"), and the behaviour of nova 34.
"""

from collections.abc import Iterable
from dataclasses import asdict

from placement_sched.api.scheduler.host_views import is_host_up
from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Invalid, NotFound
from placement_sched.extensions.what_if.drain_plan import Mover, MovingInstance, find_instances
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.document import Json
from placement_sched.model.instance import find_evacuation_obstacle
from placement_sched.scheduler.instance_requests import map_unknown_facts
from placement_sched.scheduler.scheduler import Scheduler, Simulation
from placement_sched.scheduler.simulation import CloudChange
from placement_sched.store.compute import instances, services
from placement_sched.store.compute.other_consumers import list_other_consumers

#: Code of the error for a host that is up.
HOST_IS_UP = "scheduler.host_is_up"

#: The beginning of the resource classes of neutron's ports.
_PORT_CLASSES = "NET_"
#: The minimum version of all nova-computes for the evacuation of instances with accelerators and
#: with port resources. Without nova's databases the versions are unknown.
_ACCELERATORS_SINCE, _PORTS_SINCE = 53, 59
_TPM_REASON = "it has an emulated TPM, which nova does not evacuate: wait until its host is back"
_ACCELERATORS_REASON = (
    "it has accelerators, and a nova-compute is older than 23.0 (Wallaby): upgrade it first"
)
_PORTS_REASON = (
    "its ports have resources, and a nova-compute is older than 24.0 (Xena): upgrade it first"
)


def check_hosts_are_down(scheduler: Scheduler, hosts: Iterable[str], json_path: str) -> None:
    """Check that the compute services of hosts are down, or forced down.

    Raises :class:`Conflict` for a host that is up, and :class:`Invalid` for an unknown host.
    """
    for host in sorted(set(hosts)):
        try:
            is_up = is_host_up(scheduler, host)
        except NotFound as failure:
            raise Invalid(failure.detail, json_path=json_path) from None
        if is_up:
            raise Conflict(
                f"host {host!r} is up, and only a host that is down is evacuated: force its "
                "compute service down if it is dead, else drain it",
                code=HOST_IS_UP,
                json_path=json_path,
            )


def plan_evacuation(scheduler: Scheduler, host: str) -> Json:
    """Plan the new hosts of the instances of a host that is down.

    Returns the moves, the largest instances first, each valid when it is made, the instances that
    find no host or that nova does not evacuate, other consumers of the host, and unknown facts of
    requests. Nothing is changed. Raises the errors of :func:`check_hosts_are_down`, and
    :class:`Unavailable` after ``[scheduler] what_if_timeout``.
    """
    check_hosts_are_down(scheduler, [host], "$.host")

    def run(simulation: Simulation) -> Json:
        mover, connection = Mover(simulation), simulation.connection
        oldest = _find_oldest_version(connection)
        plan = mover.migrate(
            find_instances(connection, [host]),
            avoid=[host],
            find_obstacle=lambda instance: _find_obstacle(mover, instance, oldest),
        )
        return {
            "moves": [move.as_json() for move in plan.moves],
            "stuck": [stuck.as_json() for stuck in plan.stuck],
            "unknown": mover.unexamined,
        }

    # A drained host is no candidate, so that it is not the reason why an instance finds no host.
    result = scheduler.simulate([CloudChange("$.host", "drain", [host])], run)
    uuids = [entry["instance"] for entry in (*result["moves"], *result["stuck"])]
    with scheduler.source.read() as connection:
        consumers = list_other_consumers(connection, [host])
        # Instances of other hosts have been evacuated. The host removes their allocations itself.
        records = instances.list_by_uuids(connection, [consumer.uuid for consumer in consumers])
        evacuated = {record.uuid for record in records}
        return {
            **result,
            "other_consumers": [
                asdict(consumer) for consumer in consumers if consumer.uuid not in evacuated
            ],
            "unknown": {**map_unknown_facts(connection, uuids), **result["unknown"]},
        }


def _find_obstacle(mover: Mover, instance: MovingInstance, oldest: int | None) -> str | None:
    """Return why nova does not evacuate an instance, or None if it does.

    ``oldest`` is the version of the oldest nova-compute. nova's file shares are not recorded.
    """
    if reason := find_evacuation_obstacle(mover.find_state(instance)):
        return reason
    extra_specs = (instance.record.flavor or {}).get("extra_specs") or {}
    properties = (instance.record.image or {}).get("properties") or {}
    if extra_specs.get("hw:tpm_version") or properties.get("hw_tpm_version"):
        return _TPM_REASON
    if oldest is None:
        return None
    if oldest < _ACCELERATORS_SINCE and extra_specs.get("accel:device_profile"):
        return _ACCELERATORS_REASON
    groups = instance.document.get("requested_resources") or ()
    has_port_resources = any(
        name.startswith(_PORT_CLASSES) for group in groups for name in group.get("resources") or ()
    )
    return _PORTS_REASON if oldest < _PORTS_SINCE and has_port_resources else None


def _find_oldest_version(connection: Connection) -> int | None:
    """Return the oldest version of nova-computes that are not forced down.

    It is None if no version is recorded.
    """
    computes = services.search(connection, binary=COMPUTE_BINARY)
    versions = [each.version for each in computes if not each.forced_down]
    return min((version for version in versions if version is not None), default=None)
