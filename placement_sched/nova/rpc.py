# SPDX-License-Identifier: Apache-2.0
"""nova's scheduler RPC API for nova-conductor, nova-api and nova-compute.

Methods, arguments and versions follow nova's scheduler RPC API 4.0 to 4.5. Arguments arrive as
plain primitives, which ``objects.py`` and ``request_spec.py`` read. If nova casts a change of
aggregates or instances, they are read from its databases: the cast may be outdated.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from placement_sched import errors
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.context import set_caller
from placement_sched.model.decision import Selection
from placement_sched.model.document import Json
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.request_spec import REBUILD_HINT
from placement_sched.model.request_stats import get_request_stats
from placement_sched.nova.messaging import (
    Context,
    ExpectedError,
    build_log_fields,
    build_target,
    expose,
    get_request_ids,
    log_rejection,
    log_selection,
)
from placement_sched.nova.objects import (
    ObjectType,
    UnreadableObject,
    build_primitive,
    make_list_object_reader,
    make_list_reader,
    read_integer,
    text,
    to_remote_failure,
)
from placement_sched.nova.request_spec import build_document
from placement_sched.nova.sync.follower import Follower
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.request import drop_invalid_rebuild
from placement_sched.scheduler.scheduler import Scheduler

TOPIC = "scheduler"
#: The arguments of ``select_destinations``. Versions up to 4.2 have only the first two.
_ARGUMENTS = {
    "request_spec",
    "filter_properties",
    "spec_obj",
    "instance_uuids",
    "return_objects",
    "return_alternates",
}
_SELECTS = "select_destinations"

#: The microversion of nova's allocation requests to placement. It must be below 1.38, which
#: requires a consumer type that nova does not send.
ALLOCATION_REQUEST_VERSION = "1.36"
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio")
_AMOUNTS = ("vcpu", "memory_mb", "disk_gb")

_UUIDS = make_list_reader(text)
_AGGREGATE = ObjectType("Aggregate", {"id": read_integer}, required=("id",))
_INSTANCES = make_list_object_reader(
    "InstanceList", ObjectType("Instance", {"uuid": text}, required=("uuid",))
)


class SchedulerRpc:
    """The methods of nova's scheduler, thread-safe.

    A cast is a call without a reply that nova sends to every worker of every scheduler,
    such as ``update_aggregates``. It is ignored without ``handles_casts``.
    ``check_policy_hint`` raises :class:`Forbidden` if the user of a call may not give the hint
    ``sched_policy``. ``wait_until_ready`` waits until nova's databases have been read, and raises
    :class:`~placement_sched.nova.messaging.UnsupportedCall` if the process ends before then.
    """

    target = build_target("4.5")

    def __init__(
        self,
        scheduler: Scheduler,
        follower: Follower,
        *,
        check_policy_hint: Callable[[Context], None],
        handles_casts: bool = True,
        wait_until_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._scheduler, self._follower = scheduler, follower
        self._handles_casts = handles_casts
        self._wait_until_ready, self._check_policy_hint = wait_until_ready, check_policy_hint

    @expose
    def select_destinations(self, context: Context, **sent: Any) -> Any:
        """Select and claim hosts, and return the Selections of each instance.

        ``sent`` has ``spec_obj`` (from 4.3), ``instance_uuids`` (from 4.4), ``return_objects`` and
        ``return_alternates`` (from 4.5). Without ``return_objects``, returns a dictionary for each
        instance. Raises nova's exceptions.
        """
        self._wait_until_ready()
        began = time.perf_counter()
        try:
            return self._select(sent, context, began)
        except errors.Error as error:
            wrong = error
        failure = to_remote_failure(wrong, sent.get("instance_uuids") or ())
        outcome = _find_outcome(wrong)
        if outcome is None:
            raise failure
        if isinstance(wrong, errors.NoValidHost):
            get_request_stats().result = wrong.result
        # Logged outside the handler, or the line would repeat the exception.
        level = logging.ERROR if outcome == "unavailable" else logging.INFO
        seconds = time.perf_counter() - began
        log_rejection(wrong, sent, build_log_fields(context, _SELECTS, outcome, seconds), level)
        raise ExpectedError(failure, outcome)

    def _select(self, sent: Mapping[str, Any], context: Context, began: float) -> list[Any]:
        if unknown := sorted(sent.keys() - _ARGUMENTS):
            raise UnreadableObject(f"select_destinations has no argument {', '.join(unknown)}")
        document = build_document(sent.get("spec_obj"), sent.get("instance_uuids"))
        as_objects = bool(sent.get("return_objects"))
        alternates = as_objects and bool(sent.get("return_alternates"))
        # A call of 4.3 may have several instances without uuids. Nova could not free their claims.
        claiming = ClaimMode.FOR_MOVE if document.get("instance_uuids") else ClaimMode.NONE
        hints = document.get("scheduler_hints") or {}
        if POLICY_KEY in hints:
            self._check_policy_hint(context)
        self._follower.refresh()
        if REBUILD_HINT in hints:
            self._follower.read_instances(document.get("instance_uuids") or ())
            document = drop_invalid_rebuild(self._scheduler.database, document)
        set_caller(lambda: context)
        scheduled = self._scheduler.select_destinations(
            document, alternates=alternates, claiming=claiming, ids=get_request_ids(context)
        )
        get_request_stats().result = scheduled
        selections = scheduled.selections
        hosts = [best.service_host for best, *_ in selections]
        seconds = time.perf_counter() - began
        log_selection(document, hosts, build_log_fields(context, _SELECTS, "succeeded", seconds))
        return build_primitives(selections) if as_objects else build_dictionaries(selections)

    @expose
    def update_aggregates(self, _context: Context, *, aggregates: Any) -> None:
        """Sync host aggregates that nova-api changed."""
        if self._handles_casts:
            self._follower.read_aggregates(read_aggregate_ids(aggregates))

    @expose
    def delete_aggregate(self, _context: Context, *, aggregate: Any) -> None:
        """Delete a host aggregate that nova-api deleted."""
        if self._handles_casts:
            self._follower.read_aggregates(read_aggregate_ids(aggregate))

    @expose
    def update_instance_info(
        self,
        _context: Context,
        *,
        host_name: Any,  # noqa: ARG002 - an argument of nova's
        instance_info: Any,
    ) -> None:
        """Sync instances of a host."""
        if self._handles_casts:
            self._follower.read_instances(read_object_uuids(instance_info))

    @expose
    def delete_instance_info(
        self,
        _context: Context,
        *,
        host_name: Any,  # noqa: ARG002 - an argument of nova's
        instance_uuid: Any,
    ) -> None:
        """Sync an instance that left a host."""
        if self._handles_casts:
            self._follower.read_instances([read_instance_uuid(instance_uuid)])

    @expose
    def sync_instance_info(self, _context: Context, *, host_name: Any, instance_uuids: Any) -> None:
        """Compare the instances of a host with the records."""
        if self._handles_casts:
            self._follower.compare_instances(
                read_host_name(host_name), read_instance_uuids(instance_uuids)
            )


def _find_outcome(error: errors.Error) -> str | None:
    match error:
        case errors.NoValidHost():
            return "no_valid_host"
        case errors.Unavailable():
            return "unavailable"
        case UnreadableObject():
            return None
        case errors.Invalid() | errors.NotFound() | errors.Forbidden():
            return "rejected"
    return None


class BaseRpc:
    """The methods that every service of nova has."""

    target = build_target("1.1", "baseapi")

    @expose
    def ping(self, _context: Context, arg: Any) -> Json:
        """Return the name of the service, and the argument."""
        return {"service": TOPIC, "arg": arg}

    @expose
    def get_backdoor_port(self, _context: Context) -> None:
        """Return None, because there is no backdoor."""


def build_primitives(selections: Iterable[Sequence[Selection]]) -> list[list[Json]]:
    """Convert selections of instances, each the best host and alternates."""
    return [[_build_selection(selection) for selection in group] for group in selections]


def build_dictionaries(selections: Iterable[Sequence[Selection]]) -> list[Json]:
    """Return a list of dictionaries with the chosen host of each instance."""
    return [
        {
            "host": best.service_host,
            "nodename": best.nodename,
            "limits": _merge_set_values({}, **_build_limits(best)),
        }
        for best, *_ in selections
    ]


def _build_selection(selection: Selection) -> Json:
    request = selection.allocation_request
    data = {
        "compute_node_uuid": selection.compute_node_uuid,
        "service_host": selection.service_host,
        "nodename": selection.nodename,
        "limits": build_primitive("SchedulerLimits", _build_limits(selection)),
        "allocation_request": json.dumps(request and request.as_json()),
        "allocation_request_version": None if request is None else ALLOCATION_REQUEST_VERSION,
        "availability_zone": selection.availability_zone,
    }
    # ``cell_uuid`` cannot be null. If it is unset, nova reads it from its host mappings.
    return build_primitive("Selection", _merge_set_values(data, cell_uuid=selection.cell_uuid))


def _merge_set_values(data: Json, **values: Any) -> Json:
    return data | {name: value for name, value in values.items() if value is not None}


def _build_limits(selection: Selection) -> Json:
    limits = selection.limits_as_json()
    # Limits of third-party filters are left out.
    values: Json = dict.fromkeys((*_AMOUNTS, "numa_topology"))
    for name in _AMOUNTS:
        limit = limits.get(name)
        if isinstance(limit, int | float) and isfinite(limit):
            values[name] = int(limit)
    numa = limits.get("numa_topology")
    if isinstance(numa, Mapping):
        network = numa.get("network_metadata")
        metadata = None if network is None else build_primitive("NetworkMetadata", dict(network))
        ratios = {name: float(numa[name]) for name in _RATIOS}
        values["numa_topology"] = build_primitive(
            "NUMATopologyLimits", _merge_set_values(ratios, network_metadata=metadata)
        )
    return values


def read_aggregate_ids(primitives: Any) -> set[int]:
    """Read ids of an Aggregate or of a list, or raise UnreadableObject."""
    listed = primitives if isinstance(primitives, list) else [primitives]
    paths = (f"aggregates[{index}]" for index in range(len(listed)))
    return {_AGGREGATE.read(*pair)["id"] for pair in zip(listed, paths, strict=True)}


def read_object_uuids(primitive: Any) -> list[str]:
    """Read the uuids in an InstanceList, or raise :class:`UnreadableObject`."""
    return [canonicalize_uuid(row["uuid"]) for row in _INSTANCES(primitive, "instance_info") or ()]


def read_host_name(host_name: Any) -> str:
    """Read a host name, or raise :class:`UnreadableObject`."""
    return _read_required(host_name, "host_name")


def read_instance_uuid(instance_uuid: Any) -> str:
    """Read a canonical uuid, or raise :class:`UnreadableObject`."""
    return canonicalize_uuid(_read_required(instance_uuid, "instance_uuid"))


def _read_required(value: Any, path: str) -> str:
    result: str | None = text(value, path)
    if not result:
        raise UnreadableObject(f"{path} is missing")
    return result


def read_instance_uuids(value: Any) -> list[str]:
    """Read a list of canonical uuids, or raise :class:`UnreadableObject`."""
    return [canonicalize_uuid(uuid) for uuid in _UUIDS(value, "instance_uuids") or ()]
