# SPDX-License-Identifier: Apache-2.0
"""nova's scheduler RPC API, as nova-conductor, nova-api and nova-compute call it.

Methods, arguments and versions follow nova's scheduler RPC API 4.0 to 4.5. Arguments arrive as
plain primitives, which ``objects.py`` and ``request_spec.py`` read.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from placement_sched import errors
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.caller import set_caller
from placement_sched.model.document import Json
from placement_sched.model.request_spec import REBUILD_HINT
from placement_sched.nova.call_log import Context, fields_of, ids_of, log_refusal, log_selection
from placement_sched.nova.instances import host_of, instances_of, uuid_of, uuids_of
from placement_sched.nova.messaging import ExpectedError, expose, target_of
from placement_sched.nova.objects import (
    UnreadableObject,
    aggregate_of,
    aggregates_of,
    to_remote_failure,
)
from placement_sched.nova.request_spec import document_of
from placement_sched.nova.selections import dictionaries_of, primitives_of
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


class SchedulerRpc:
    """The methods of nova's scheduler, thread-safe.

    An announcement is a call without an answer that nova sends to every worker of every scheduler,
    such as ``update_aggregates``. Only workers with ``announced`` record announcements.
    ``check_policy_hint`` raises :class:`Forbidden` if the user of a call may not give the hint
    ``sched_policy``. ``until_known`` waits until nova's databases have been read, and raises
    :class:`~placement_sched.nova.messaging.UnsupportedCall` if the process ends before.
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

    @expose
    def select_destinations(self, context: Context, **sent: Any) -> Any:
        """Select and claim hosts, and return a list of Selections for each instance.

        ``sent`` has, by version, ``spec_obj`` (4.3), ``instance_uuids`` (4.4), ``return_objects``
        and ``return_alternates`` (4.5). Raises nova's exceptions.
        """
        self._until_known()
        began = time.perf_counter()
        level, outcome = logging.INFO, "refused"
        wrong: errors.Error
        try:
            return self._select(sent, context, began)
        except errors.NoValidHost as no_host:
            failure, wrong, outcome = to_remote_failure(no_host), no_host, "no_valid_host"
        except errors.Unavailable as down:
            failure, wrong, outcome, level = (
                to_remote_failure(down),
                down,
                "unavailable",
                logging.ERROR,
            )
        except UnreadableObject as unreadable:
            raise to_remote_failure(unreadable) from None
        except (errors.Invalid, errors.NotFound, errors.Forbidden) as rejected:
            failure, wrong = to_remote_failure(rejected), rejected
        except errors.Error as unexpected:
            raise to_remote_failure(unexpected, sent.get("instance_uuids") or ()) from None
        # Logged outside the handler, or the line would repeat the exception.
        seconds = time.perf_counter() - began
        log_refusal(wrong, sent, fields_of(context, _SELECTS, outcome, seconds), level)
        raise ExpectedError(failure, outcome)

    def _select(self, sent: Mapping[str, Any], context: Context, began: float) -> list[Any]:
        if unknown := sorted(sent.keys() - _ARGUMENTS):
            raise UnreadableObject(f"select_destinations has no argument {', '.join(unknown)}")
        document = document_of(sent.get("spec_obj"), sent.get("instance_uuids"))
        as_objects = bool(sent.get("return_objects"))
        alternates = as_objects and bool(sent.get("return_alternates"))
        # A call of 4.3 may be for several instances without uuids: no claim could be freed.
        claiming = ClaimMode.ADDED if document.get("instance_uuids") else ClaimMode.NONE
        hints = document.get("scheduler_hints") or {}
        if POLICY_KEY in hints:
            self._check_policy_hint(context)
        self._follower.refresh()
        if REBUILD_HINT in hints:
            self._follower.read_instances(document.get("instance_uuids") or ())
            document = drop_invalid_rebuild(self._scheduler.database, document)
        set_caller(lambda: context)
        answer = self._scheduler.select_destinations(
            document, alternates=alternates, claiming=claiming, ids=ids_of(context)
        )
        seconds = time.perf_counter() - began
        log_selection(document, answer, fields_of(context, _SELECTS, "answered", seconds))
        return primitives_of(answer) if as_objects else dictionaries_of(answer)

    @expose
    def update_aggregates(self, _context: Context, *, aggregates: Any) -> None:
        """Sync host aggregates that nova-api changed."""
        if self._announced:
            self._follower.aggregates_changed(aggregates_of(aggregates))

    @expose
    def delete_aggregate(self, _context: Context, *, aggregate: Any) -> None:
        """Delete a host aggregate that nova-api deleted."""
        if self._announced:
            self._follower.aggregate_deleted(aggregate_of(aggregate).id)

    @expose
    def update_instance_info(
        self, _context: Context, *, host_name: Any, instance_info: Any
    ) -> None:
        """Sync instances of a host."""
        if self._announced:
            self._follower.instances_changed(host_of(host_name), instances_of(instance_info))

    @expose
    def delete_instance_info(
        self, _context: Context, *, host_name: Any, instance_uuid: Any
    ) -> None:
        """Sync an instance that left a host."""
        if self._announced:
            self._follower.instance_deleted(host_of(host_name), uuid_of(instance_uuid))

    @expose
    def sync_instance_info(self, _context: Context, *, host_name: Any, instance_uuids: Any) -> None:
        """Compare the instances of a host with the records."""
        if self._announced:
            self._follower.instances_synced(host_of(host_name), uuids_of(instance_uuids))


class BaseRpc:
    """The methods that every service of nova has."""

    target = target_of("1.1", "baseapi")

    @expose
    def ping(self, _context: Context, arg: Any) -> Json:
        """Return the argument."""
        return {"service": TOPIC, "arg": arg}

    @expose
    def get_backdoor_port(self, _context: Context) -> None:
        """Return None, because there is no backdoor."""
