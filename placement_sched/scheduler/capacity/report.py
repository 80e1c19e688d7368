"""Ask for the capacity of a request, or of one request for each of several flavors."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np

from placement_sched.candidates.explain import first_steps
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.candidates_query import CandidateProvider
from placement_sched.model.document import Document, Json
from placement_sched.model.figures import CapacityFigures, Counted, FlavorCapacity
from placement_sched.model.names import if_few, names_instead, nearest
from placement_sched.scheduler.capacity.accounts import HostCount, SharedPool, Stop
from placement_sched.scheduler.capacity.count import (
    OUT_OF_TIME,
    CapacityCount,
    Deadline,
    OneCloud,
    Per,
    Recount,
    count_capacity,
)
from placement_sched.scheduler.explain.funnel import search_run, unknown_hosts
from placement_sched.scheduler.narrowing import RequestFilterRun
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import Run
from placement_sched.scheduler.simulation import CloudChange
from placement_sched.store.compute import flavors as stored_flavors
from placement_sched.store.placement import resource_providers

#: The answer where nothing can fit, but for the reason.
NOTHING: Json = {"capacity": 0, "exact": True, "limited_by": [], "stranded": {}}
#: Maximum number of parts that are counted again, each by itself.
_MAX_RECOUNTED = 100
#: A uuid in the detail of a constraint.
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The step of the candidates search that asks for amounts.
_RESOURCES = "resources"


def report(cloud: OneCloud, done: CapacityCount, per: Per | None) -> Json:
    """Return the answer for one request."""
    run, counts = done.run, list[HostCount](done.ledgers)
    if not run.narrowed.refusal:
        counts += _never_fitting(cloud.connection, run, {count.uuid for count in counts})
    refusal, chosen = run.narrowed.refusal, run.request.chosen
    shown = _part(counts)
    answer = {
        "capacity": shown.pop("capacity"),
        "exact": not done.doubts,
        **({"policy": chosen.policy.name} if chosen else {}),
        **({"inexact_because": list(done.doubts)} if done.doubts else {}),
        **({"refused": refusal.reason} if refusal else {}),
        **shown,
        **({"per": _per(cloud, done, counts, per)} if per else {}),
    }
    _name(cloud, done, [answer, *answer.get("per", ())])
    return answer


def _part(counts: Iterable[HostCount]) -> Json:
    """Return how many instances fit on these hosts, what stops how many, and what is free there."""
    capacity, taken = 0, Counter[SharedPool]()
    stops, stranded = Counter[Stop](), Counter[str]()
    for count in counts:
        capacity += count.instances
        stops[count.stop] += 1
        if count.pool:
            taken[count.pool] += count.instances
        if count.stop.is_resource and count.free:
            for name, free in count.free.items():
                stranded[name] += free
    for pool, instances in taken.items():
        # The hosts have room for more than the pool has: these stay free on the hosts.
        more = max(instances - pool.most, 0)
        capacity -= more
        for name, amount in pool.own.items():
            stranded[name] += more * amount
    ordered = sorted(stops.items(), key=lambda item: (-item[1], item[0]))
    return {
        "capacity": capacity,
        "limited_by": [_shown(stop, hosts) for stop, hosts in ordered],
        "stranded": {name: free for name, free in sorted(stranded.items()) if free},
    }


def _shown(stop: Stop, hosts: int) -> Json:
    detail = {"detail": stop.detail} if stop.detail else {}
    return {"reason": stop.reason, **detail, "hosts": hosts}


def _per(cloud: OneCloud, done: CapacityCount, counts: Sequence[HostCount], per: Per) -> list[Json]:
    """Return the parts of the cloud by name."""
    names = _names(cloud, done, counts, per)
    parts = grouped(
        (name, count) for count, some in zip(counts, names, strict=True) for name in some
    )
    recount = done.recount if len(parts) <= _MAX_RECOUNTED else None
    if recount is not None:
        parts = {name: _counted_again(recount, some) for name, some in parts.items()}
    return [{"name": name, **_part(parts[name])} for name in sorted(parts)]


def _counted_again(recount: Recount, counts: Sequence[HostCount]) -> list[HostCount]:
    """Return these hosts as they are if all instances go there."""
    again = recount({count.uuid for count in counts})
    known = {count.uuid for count in again}
    return [*again, *(count for count in counts if count.uuid not in known)]


def _names(
    cloud: OneCloud, done: CapacityCount, counts: Sequence[HostCount], per: Per
) -> Iterable[Iterable[str]]:
    """Return for each node the names of the parts that it is in."""
    view = done.run.cloud
    if per is not Per.CELL:
        default = done.run.request.settings.DEFAULT.default_availability_zone
        return map(cloud.parts_of(view.aggregates, per, default), [count.host for count in counts])
    uuids = [count.uuid for count in counts if count.uuid]
    nodes = view.memory.nodes.get(cloud.connection, uuids, view.host_versions)
    cells = {node.uuid: node.cell_uuid or "" for node in nodes}
    return ((cells.get(count.uuid or "", ""),) for count in counts)


def _name(cloud: OneCloud, done: CapacityCount, parts: Sequence[Json]) -> None:
    """Put the names of aggregates and providers beside the uuids in what limits these parts."""
    limits = [one for part in parts for one in part["limited_by"] if "detail" in one]
    within = {one["detail"]: dict.fromkeys(_UUID.findall(one["detail"])) for one in limits}
    uuids = {uuid for found in within.values() for uuid in found}
    if not uuids:
        return
    names = {one.uuid: one.name for one in done.run.cloud.host_aggregates() if one.uuid in uuids}
    others = resource_providers.by_uuids(cloud.connection, uuids - names.keys())
    names |= {uuid: provider.name for uuid, provider in others.items()}
    for one in limits:
        if named := {uuid: names[uuid] for uuid in within[one["detail"]] if uuid in names}:
            one["names"] = named


def _never_fitting(
    connection: Connection, run: Run, counted: Collection[str | None]
) -> list[HostCount]:
    """Return the nodes without a candidate, each with the first step of the search that it fails.

    With what is free there if they lack a resource. ``counted`` are the uuids of the others.
    """
    asked = run.searches.asked
    if asked is None:
        return []
    names = run.cloud.memory.node_names.current(connection)
    found: dict[str, HostCount] = {}
    for (kind, detail), uuids in first_steps(search_run(connection, run, asked)):
        stop = Stop(kind, detail)
        if kind == _RESOURCES:
            stop = Stop(detail.partition(":")[0], is_resource=True)
        for uuid in uuids:
            if uuid in names and uuid not in counted:
                found[uuid] = HostCount(host=names[uuid][0], uuid=uuid, stop=stop)
    short = {uuid: count for uuid, count in found.items() if count.stop.is_resource}
    for uuid, free in _free_on(run, short).items():
        short[uuid].free = free
    return list(found.values())


def _free_on(run: Run, roots: Collection[str]) -> Mapping[str, dict[str, int]]:
    """Return by class asked for what is free on the trees of these roots, by root."""
    asked = run.searches.asked
    if asked is None or not roots:
        return {}
    source = run.cloud.providers
    searches = (asked, run.searches.fallback)
    names = {
        name: one.search.names.classes[name]
        for one in searches
        if one is not None
        for group in one.search.query.groups
        for name, _ in group.resources
    }
    root_of = {key: root for root, key in source.ids_of(roots).items()}
    if not asked.search.is_single:
        known = [CandidateProvider(key, root, 0, root, None) for key, root in root_of.items()]
        root_of = {one.id: one.root_uuid for one in source.whole_trees(known)}
    columns = source.free_columns(list(root_of), list(names.values()))
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(names, 0))
    for name, class_id in names.items():
        free = np.maximum(columns[class_id], 0).tolist()
        for root, amount in zip(root_of.values(), free, strict=True):
            found[root][name] += int(amount)
    return found


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
        done = count_capacity(self.scheduler, connection, request, view, deadline)
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
