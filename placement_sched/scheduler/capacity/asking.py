"""Ask for the capacity of a request, or of one request for each of several flavors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.document import Document, Json
from placement_sched.model.figures import CapacityFigures, Counted, FlavorCapacity
from placement_sched.model.names import if_few, names_instead, nearest
from placement_sched.scheduler.capacity.counting import OUT_OF_TIME, CapacityCount, count
from placement_sched.scheduler.capacity.one_cloud import OneCloud, Per
from placement_sched.scheduler.capacity.placing import Deadline
from placement_sched.scheduler.capacity.report import NOTHING, report
from placement_sched.scheduler.explain.named_hosts import unknown_hosts
from placement_sched.scheduler.narrowing import RequestFilterRun
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from placement_sched.scheduler.requests.reading import SchedulingRequest
from placement_sched.scheduler.what_if.changes import CloudChange
from placement_sched.store.compute import flavors as stored_flavors

#: A question is for one instance after the other, none of which is there.
_IGNORED = ("num_instances", "instance_uuids")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuestion:
    """A request, and how its capacity is to be shown; ``policy`` and ``overrides`` as in explain.

    ``flavors`` are asked about one by one in place of the request's own, or every stored one with
    ``all_flavors``; they share ``[scheduler] capacity_budget``, and with ``each_alone`` each has it
    to itself. With ``each_alone`` one that cannot be asked about hides no other; that is so
    with all of them.
    """

    document: Document
    per: Per | None = None
    policy: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    flavors: Sequence[Any] = ()
    all_flavors: bool = False
    each_alone: bool = False

    @property
    def raises(self) -> bool:
        """Return whether a flavor that cannot be asked about leaves no answer."""
        return not (self.all_flavors or self.each_alone)


def capacity(
    scheduler: Scheduler, question: CapacityQuestion, changes: Sequence[CloudChange] = ()
) -> Json:
    """Return the capacity of a request, or with flavors ``{"flavors": [...]}``, in their order.

    With ``changes`` it is on a cloud that is changed so. Raises :class:`Invalid` and
    :class:`NotFound` for what cannot be asked, and what explaining the request would raise.
    """
    if changes:
        return scheduler.supposing(changes, lambda other, *_: capacity(other, question))
    with scheduler.source.read() as connection:
        names = flavors_asked(connection, question)
    question = _for_one(question)
    # All of them before the connection to count on is taken: reading takes one of its own.
    # A flavor that is named again is not counted again.
    keys = [json.dumps(name, sort_keys=True) for name in names]
    asked = dict(zip(keys, names, strict=True))
    requests = {key: read(scheduler, question, name) for key, name in asked.items()}
    with scheduler.at_length(), scheduler.source.read() as connection:
        asking = _Asking(scheduler, OneCloud(connection, scheduler.memory), question)
        found = {
            key: asking.answer(request, last=at == len(requests))
            for at, (key, request) in enumerate(requests.items(), 1)
        }
    if not (question.flavors or question.all_flavors):
        return found[keys[0]]
    pairs = zip(keys, names, strict=True)
    return {"flavors": [{"flavor": shown(name), **found[key]} for key, name in pairs]}


def watched(scheduler: Scheduler, names: Sequence[str], now: float) -> CapacityFigures:
    """Return the capacity for each of these flavors, by name or id, and for each zone.

    ``now`` is in seconds since 1970. A flavor that is not stored, or that no request can name,
    hides no other. Raises what :func:`capacity` raises but for these.
    """
    with scheduler.source.read() as connection:
        known = [one for one in names if stored_flavors.by_flavorid_or_name(connection, one)]
    found = {name: FlavorCapacity(Counted.UNKNOWN) for name in names}
    if known:
        question = CapacityQuestion(document={}, per=Per.ZONE, flavors=known, each_alone=True)
        answers = capacity(scheduler, question)["flavors"]
        found |= {one["flavor"]: _figure(one).bounded() for one in answers}
    return CapacityFigures(now, found)


def _figure(answer: Json) -> FlavorCapacity:
    if "refused" in answer:
        return FlavorCapacity(Counted.REFUSED)
    zones = {one["name"]: one["capacity"] for one in answer["per"]}
    state = Counted.EXACT if answer["exact"] else Counted.INEXACT
    return FlavorCapacity(state, answer["capacity"], zones)


def flavors_asked(connection: Connection, question: CapacityQuestion) -> Sequence[Any]:
    """Return the flavors that a question names: ids, names or objects; None is the request's own.

    Raises :class:`NotFound` with the nearest name for one that is not stored.
    """
    own = question.document.get("flavor")
    ways = [own is not None, bool(question.flavors), question.all_flavors]
    if sum(ways) != 1:
        raise Invalid(
            "exactly one of request_spec.flavor, flavors and all_flavors is expected", at="$"
        )
    if question.all_flavors:
        return [one.name for one in stored_flavors.all_flavors(connection)]
    places = {f"$.flavors[{at}]": name for at, name in enumerate(question.flavors)}
    places = places or {"$.request_spec.flavor": own}
    for place, name in places.items():
        if isinstance(name, str) and not stored_flavors.by_flavorid_or_name(connection, name):
            listed = stored_flavors.all_flavors(connection)
            known = [each for one in listed for each in (one.name, one.flavorid) if each]
            names = if_few(one.name for one in listed)
            near = names_instead("flavor", nearest(name, known), names)
            raise NotFound(
                f"There is no stored flavor {name!r}{near}", at=place, code="scheduler.not_found"
            )
    return list(places.values())


def read(
    scheduler: Scheduler, question: CapacityQuestion, flavor: Any
) -> SchedulingRequest | Invalid:
    """Return the request for one instance of a flavor, or why there can be none.

    Of all stored flavors one that no request can name hides no other; else it raises the same.
    """
    document, reader = {**question.document, "flavor": flavor}, scheduler.reader
    try:
        request = reader.read(document, policy=question.policy, overrides=question.overrides)
        return reader.checked(request)
    except Invalid as wrong:
        if question.raises:
            raise
        return wrong


@dataclass(slots=True)
class _Asking:
    """A question that is being answered in one cloud; ``spent`` are the seconds it took so far."""

    scheduler: Scheduler
    cloud: OneCloud
    question: CapacityQuestion
    spent: float = 0.0

    def answer(self, request: SchedulingRequest | Invalid, *, last: bool) -> Json:
        """Return the capacity of a request, which is the ``last`` or not.

        Raises :class:`Invalid` for what cannot be asked, such as a zone that is not there,
        :class:`NotFound` for a host that is not there, and :class:`Unavailable` where the time of
        a question about a changed cloud is over.
        """
        if isinstance(request, Invalid):
            return NOTHING | {"refused": request.detail}
        self.scheduler.source.check()
        budget, began = request.settings.scheduler.capacity_budget, monotonic()
        left = budget - (0.0 if self.question.each_alone else self.spent)
        if budget and left <= 0:
            return self._uncounted(budget)
        # Others are to have a part of what is left, however long this one would take.
        part = left if last or self.question.each_alone else left / 2
        deadline = Deadline(began + part if budget else inf, monotonic)
        try:
            done = self._counted(request, deadline)
            return report(self.cloud, done, self.question.per)
        except Invalid as wrong:
            if self.question.raises:
                raise
            return NOTHING | {"refused": wrong.detail}
        finally:
            self.spent += monotonic() - began

    def _uncounted(self, budget: float) -> Json:
        doubt = {"exact": False, "inexact_because": [OUT_OF_TIME.format(seconds=budget)]}
        return NOTHING | doubt | ({"per": []} if self.question.per else {})

    def _counted(self, request: SchedulingRequest, deadline: Deadline) -> CapacityCount:
        connection = self.cloud.connection
        refuse_unknown_hosts(connection, request)
        view = self.cloud.view_for(request)
        done = count(self.scheduler, connection, request, view, deadline)
        refuse_unknown_zone(done.run.narrowed)
        return done


def refuse_unknown_hosts(connection: Connection, request: SchedulingRequest) -> None:
    """Raise :class:`NotFound` with the nearest name for a host of a request that is not there."""
    for unknown in unknown_hosts(connection, request.spec):
        place = f"$.request_spec.{unknown.key}[{unknown.position}]"
        raise NotFound(unknown.detail, at=place, code="scheduler.not_found")


def refuse_unknown_zone(narrowed: RequestFilterRun) -> None:
    """Raise :class:`Invalid` with the zones that there are for one that is not there."""
    for one in narrowed.reports:
        if one.refusal and one.name == MapAZToPlacementAggregate.name:
            raise Invalid(f"{one.refusal}", at="$.request_spec.availability_zone")


def _for_one(question: CapacityQuestion) -> CapacityQuestion:
    """Return the question for one instance, which is the same whatever its flavor."""
    kept = {name: value for name, value in question.document.items() if name not in _IGNORED}
    return replace(question, document={**kept, "instance_uuids": [str(uuid4())]})


def shown(flavor: Any) -> Any:
    """Return how an answer names a flavor."""
    return flavor if isinstance(flavor, str) else flavor.get("name", flavor)
