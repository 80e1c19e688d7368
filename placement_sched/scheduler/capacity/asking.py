"""Ask for the capacity of a request, or of one request for each of several flavors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.document import Document, Json
from placement_sched.model.naming import did_you_mean, nearest
from placement_sched.scheduler.capacity.counting import count
from placement_sched.scheduler.capacity.report import NOTHING, Per, report
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
    ``all_flavors``.
    """

    document: Document
    per: Per | None = None
    policy: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    flavors: Sequence[Any] = ()
    all_flavors: bool = False


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
    found = []
    for name in names:
        try:
            request = read(scheduler, question, name)
            with scheduler.source.read() as connection:
                found.append(answer(scheduler, connection, request, question.per))
        except Invalid as wrong:  # a stored flavor that no request can name hides no other
            if not question.all_flavors:
                raise
            found.append(NOTHING | {"refused": wrong.detail})
    if not (question.flavors or question.all_flavors):
        return found[0]
    pairs = zip(names, found, strict=True)
    return {"flavors": [{"flavor": shown(name), **one} for name, one in pairs]}


def flavors_asked(connection: Connection, question: CapacityQuestion) -> Sequence[Any]:
    """Return the flavors that a question names: ids, names or objects; None is the request's own.

    Raises :class:`NotFound` with the nearest name for one that is not stored.
    """
    own = question.document.get("flavor")
    ways = [own is not None, bool(question.flavors), question.all_flavors]
    if sum(ways) != 1:
        raise Invalid(
            "exactly one of request_spec.flavor, flavors and all_flavors is expected (at $)"
        )
    if question.all_flavors:
        return [one.name for one in stored_flavors.all_flavors(connection)]
    places = {f"$.flavors[{at}]": name for at, name in enumerate(question.flavors)}
    places = places or {"$.request_spec.flavor": own}
    for place, name in places.items():
        if isinstance(name, str) and not stored_flavors.by_flavorid_or_name(connection, name):
            listed = stored_flavors.all_flavors(connection)
            known = [each for one in listed for each in (one.name, one.flavorid) if each]
            near = did_you_mean(nearest(name, known)[:1])
            raise NotFound(
                f"There is no stored flavor {name!r}{near} (at {place})", code="scheduler.not_found"
            )
    return list(places.values())


def read(scheduler: Scheduler, question: CapacityQuestion, flavor: Any) -> SchedulingRequest:
    """Return the request for one instance of a flavor."""
    kept = {name: value for name, value in question.document.items() if name not in _IGNORED}
    reader = scheduler.reader
    request = reader.read(
        {**kept, "flavor": flavor}, policy=question.policy, overrides=question.overrides
    )
    return reader.checked(request)


def answer(
    scheduler: Scheduler, connection: Connection, request: SchedulingRequest, per: Per | None
) -> Json:
    """Return the capacity of a request as this connection sees the cloud.

    Raises :class:`Invalid` for an availability zone that is not there.
    """
    done = count(scheduler, connection, request)
    for one in done.run.narrowed.reports:
        if one.refusal and one.name == MapAZToPlacementAggregate.name:
            raise Invalid(f"{one.refusal} (at $.request_spec.availability_zone)")
    return report(connection, done, per)


def shown(flavor: Any) -> Any:
    """Return how an answer names a flavor."""
    return flavor if isinstance(flavor, str) else flavor.get("name", flavor)
