"""nova's scheduler RPC API: what nova-conductor, nova-api and nova-compute ask of ``scheduler``.

Methods, arguments and versions are those of nova's scheduler RPC API 4.0 to 4.5. Messages come as
plain primitives, which ``wire/`` takes apart.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from placement_sched import errors
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.document import Json
from placement_sched.model.request_spec import REBUILD_HINT
from placement_sched.nova.call_log import Context, fields_of, ids_of, log_refusal, log_selection
from placement_sched.nova.instances import host_of, instances_of, uuid_of, uuids_of
from placement_sched.nova.messaging import Expected, exposed, target_of
from placement_sched.nova.objects import UnreadableObject, aggregate_of, aggregates_of, over_rpc
from placement_sched.nova.request_spec import document_of
from placement_sched.nova.selections import dictionaries_of, primitives_of
from placement_sched.nova.sync.follower import Follower
from placement_sched.scheduler.claim import Claiming
from placement_sched.scheduler.request import without_false_rebuild
from placement_sched.scheduler.scheduler import Scheduler

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
_SELECTS = "select_destinations"


class SchedulerRpc:
    """The methods of nova's scheduler, for any number of threads.

    Announcements are sent to every worker of every scheduler: one that is not ``announced`` to
    leaves them to another. ``check_policy_hint`` raises :class:`Forbidden` if the user of a call
    may not give the hint ``sched_policy``. ``until_known`` returns once the cloud is known, and
    raises :class:`~placement_sched.nova.messaging.Unanswered` where the process ends before.
    """

    target = target_of("4.5")

    def __init__(
        self,
        scheduler: Scheduler,
        follower: Follower,
        *,
        check_policy_hint: Callable[[Context], None],
        announced: bool = True,
        until_known: Callable[[], None] = lambda: None,
    ) -> None:
        self._scheduler, self._follower, self._announced = scheduler, follower, announced
        self._until_known, self._check_policy_hint = until_known, check_policy_hint

    @exposed
    def select_destinations(self, context: Context, **sent: Any) -> Any:
        """Return where instances are to go, claimed: a list of Selections for each of them.

        ``sent`` has, by version, ``spec_obj`` (4.3), ``instance_uuids`` (4.4), ``return_objects``
        and ``return_alternates`` (4.5). Raises nova's exceptions.
        """
        self._until_known()
        began = time.perf_counter()
        level, outcome = logging.INFO, "refused"
        wrong: errors.Error
        try:
            return self._selected(sent, context, began)
        except errors.NoValidHost as none:
            failure, wrong, outcome = over_rpc(none), none, "no_valid_host"
        except errors.Unavailable as away:
            failure, wrong, outcome, level = over_rpc(away), away, "unavailable", logging.ERROR
        except UnreadableObject as unread:
            raise over_rpc(unread) from None
        except (errors.Invalid, errors.NotFound, errors.Forbidden) as refused:  # it cannot be
            failure, wrong = over_rpc(refused), refused
        except errors.Error as unexpected:
            raise over_rpc(unexpected, sent.get("instance_uuids") or ()) from None
        # After the failure, which the log would show once more.
        took = time.perf_counter() - began
        log_refusal(wrong, sent, fields_of(context, _SELECTS, outcome, took), level)
        raise Expected(failure, outcome)

    def _selected(self, sent: Mapping[str, Any], context: Context, began: float) -> list[Any]:
        if unknown := sorted(sent.keys() - _ARGUMENTS):
            raise UnreadableObject(f"select_destinations has no argument {', '.join(unknown)}")
        document = document_of(sent.get("spec_obj"), sent.get("instance_uuids"))
        objects = bool(sent.get("return_objects"))
        alternates = objects and bool(sent.get("return_alternates"))
        # A call of 4.3 may be for several instances and not say which: no claim could be freed.
        claiming = Claiming.ADDED if document.get("instance_uuids") else Claiming.NONE
        hints = document.get("scheduler_hints") or {}
        if POLICY_KEY in hints:
            self._check_policy_hint(context)
        self._follower.refresh()
        if REBUILD_HINT in hints:
            self._follower.read_instances(document.get("instance_uuids") or ())
            document = without_false_rebuild(self._scheduler.database, document)
        answer = self._scheduler.select_destinations(
            document, alternates=alternates, claiming=claiming, ids=ids_of(context)
        )
        took = time.perf_counter() - began
        log_selection(document, answer, fields_of(context, _SELECTS, "answered", took))
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
