"""nova's scheduler RPC API: what nova-conductor, nova-api and nova-compute ask of ``scheduler``.

Methods, arguments and versions are those of nova's scheduler RPC API 4.0 to 4.5. Messages come as
plain primitives, which ``wire/`` takes apart.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from oslo_log import log

from placement_sched import errors
from placement_sched.errors import one_line
from placement_sched.model.document import Json
from placement_sched.model.request_ids import RequestIds
from placement_sched.nova.messaging import Expected, exposed, target_of
from placement_sched.nova.sync.follower import Follower
from placement_sched.nova.wire.aggregates import aggregate_of, aggregates_of
from placement_sched.nova.wire.errors import over_rpc
from placement_sched.nova.wire.instances import host_of, instances_of, uuid_of, uuids_of
from placement_sched.nova.wire.objects import UnreadableObject
from placement_sched.nova.wire.request_spec import document_of
from placement_sched.nova.wire.selections import dictionaries_of, primitives_of
from placement_sched.scheduler.claims import Claiming
from placement_sched.scheduler.pipeline import Scheduler

LOG = log.getLogger(__name__)

TOPIC = "scheduler"
#: What ``select_destinations`` is called with; up to version 4.2 it was the first two.
_ARGUMENTS = {
    "request_spec",
    "filter_properties",
    "spec_obj",
    "instance_uuids",
    "return_objects",
    "return_alternates",
}
#: How many characters of an id are kept.
_ID = 255

Context = Mapping[str, Any]


class SchedulerRpc:
    """The methods of nova's scheduler, for any number of threads.

    Announcements are sent to every worker of every scheduler: one that is not ``announced`` to
    leaves them to another. ``until_known`` returns once the cloud is known, and raises
    :class:`~placement_sched.nova.messaging.Unanswered` where the process ends before.
    """

    target = target_of("4.5")

    def __init__(
        self,
        scheduler: Scheduler,
        follower: Follower,
        *,
        announced: bool = True,
        until_known: Callable[[], None] = lambda: None,
    ) -> None:
        self._scheduler, self._follower, self._announced = scheduler, follower, announced
        self._until_known = until_known

    @exposed
    def select_destinations(self, context: Context, **sent: Any) -> Any:
        """Return where instances are to go, claimed: a list of Selections for each of them.

        ``sent`` has, by version, ``spec_obj`` (4.3), ``instance_uuids`` (4.4), ``return_objects``
        and ``return_alternates`` (4.5). Raises nova's exceptions.
        """
        ids = ids_of(context)
        self._until_known()
        log_line = LOG.info
        try:
            return self._selected(sent, ids)
        except errors.NoValidHost as none:
            failure, line = over_rpc(none), line_of(none, sent, ids)
        except errors.Unavailable as away:
            failure, line, log_line = over_rpc(away), line_of(away, sent, ids), LOG.error
        except UnreadableObject as wrong:
            raise over_rpc(wrong) from None
        except (errors.Invalid, errors.NotFound) as wrong:  # a request that cannot be
            failure, line = over_rpc(wrong), line_of(wrong, sent, ids)
        except errors.Error as wrong:
            raise over_rpc(wrong, sent.get("instance_uuids") or ()) from None
        # After the failure, which the log would show once more.
        log_line("%s", line)
        raise Expected(failure)

    def _selected(self, sent: Mapping[str, Any], ids: RequestIds) -> list[Any]:
        if unknown := sorted(sent.keys() - _ARGUMENTS):
            raise UnreadableObject(f"select_destinations has no argument {', '.join(unknown)}")
        document = document_of(sent.get("spec_obj"), sent.get("instance_uuids"))
        objects = bool(sent.get("return_objects"))
        alternates = objects and bool(sent.get("return_alternates"))
        # A call of 4.3 may be for several instances and not say which: no claim could be freed.
        claiming = Claiming.ADDED if document.get("instance_uuids") else Claiming.NONE
        began = time.perf_counter()
        self._follower.refresh()
        answer = self._scheduler.select_destinations(
            document, alternates=alternates, claiming=claiming, ids=ids
        )
        _log_selection(document, answer, ids, (time.perf_counter() - began) * 1000)
        return primitives_of(answer) if objects else dictionaries_of(answer)

    @exposed
    def update_aggregates(self, _context: Context, *, aggregates: Any) -> None:
        """Record host aggregates that nova-api changed."""
        if self._announced:
            self._follower.aggregates_changed(aggregates_of(aggregates))

    @exposed
    def delete_aggregate(self, _context: Context, *, aggregate: Any) -> None:
        """Forget a host aggregate that nova-api deleted."""
        if self._announced:
            self._follower.aggregate_deleted(aggregate_of(aggregate).id)

    @exposed
    def update_instance_info(
        self, _context: Context, *, host_name: Any, instance_info: Any
    ) -> None:
        """Record instances that a host has."""
        if self._announced:
            self._follower.instances_changed(host_of(host_name), instances_of(instance_info))

    @exposed
    def delete_instance_info(
        self, _context: Context, *, host_name: Any, instance_uuid: Any
    ) -> None:
        """Forget an instance that left a host."""
        if self._announced:
            self._follower.instance_deleted(host_of(host_name), uuid_of(instance_uuid))

    @exposed
    def sync_instance_info(self, _context: Context, *, host_name: Any, instance_uuids: Any) -> None:
        """Compare which instances a host has with those that are recorded."""
        if self._announced:
            self._follower.instances_synced(host_of(host_name), uuids_of(instance_uuids))


class BaseRpc:
    """What every service of nova answers: whether it is there."""

    target = target_of("1.1", "baseapi")

    @exposed
    def ping(self, _context: Context, arg: Any) -> Json:
        """Return the argument."""
        return {"service": TOPIC, "arg": arg}

    @exposed
    def get_backdoor_port(self, _context: Context) -> None:
        """Return nothing: there is no backdoor."""


def ids_of(context: Context) -> RequestIds:
    """Return the ids of the request that a message is part of, as nova's context has them."""
    named = (context.get("request_id"), context.get("global_request_id"))
    request, whole = (one[:_ID] if isinstance(one, str) else None for one in named)
    return RequestIds(request, whole)


def _log_selection(document: Json, answer: Json, ids: RequestIds, took: float) -> None:
    hosts = [best["service_host"] for best, *_ in answer["selections"]]
    # As fields for [DEFAULT] use_json, as the access log of HTTP requests has them.
    about = {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "project_id": document.get("project_id"),
        "outcome": "selected",
        "instances": len(hosts),
        "hosts": len(set(hosts)),
        "duration_ms": round(took, 1),
    }
    LOG.info(
        "selected hosts for %s instances: %s, and %s more (project %r, request %s) %.1f ms",
        len(hosts),
        hosts[0],
        len(set(hosts)) - 1,
        about["project_id"],
        ids.request_id,
        took,
        extra={"extra": about},
    )


def line_of(none: errors.Error, sent: Mapping[str, Any], ids: RequestIds) -> str:
    """Return the line for operators: which request found no host, why, and where to read more."""
    uuids = sent.get("instance_uuids") or ["unknown"]
    several = isinstance(uuids, list) and len(uuids) > 1
    more = f" and {len(uuids) - 1} more" if several else ""
    decision = f", decision {none.extra['decision']}" if "decision" in none.extra else ""
    first = uuids[0] if isinstance(uuids, list) else "unknown"
    return f"{one_line(none)} (instance {first}{more}, request {ids.request_id}{decision})"
