# SPDX-License-Identifier: Apache-2.0
"""Capacity reports for a request, or for each of several flavors."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.explain.phrases import describe_rejection
from placement_sched.explain.report import iterate_steps
from placement_sched.extensions.what_if.capacity.count import (
    OUT_OF_TIME,
    CapacityCount,
    CloudPart,
    Deadline,
    Recount,
    SharedView,
    build_parts_lookup,
    count_capacity,
)
from placement_sched.extensions.what_if.capacity.figures import (
    CapacityFigures,
    FlavorCapacity,
    Reliability,
)
from placement_sched.extensions.what_if.capacity.host_counts import (
    HostCount,
    LimitReason,
    SharedPool,
)
from placement_sched.limits import MAX_RECOUNTED_PARTS
from placement_sched.model.constraint import LimitingOption
from placement_sched.model.document import Document, Json
from placement_sched.model.grouping import group_rows
from placement_sched.model.names import find_nearest, list_if_few, suggest_names
from placement_sched.model.rejection import OTHER
from placement_sched.scheduler.explain.funnel import find_unknown_hosts, search_run
from placement_sched.scheduler.filtering import RequestFilterRun
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_filters.map_az_to_placement_aggregate import (
    MapAZToPlacementAggregate,
)
from placement_sched.scheduler.scheduler import Evaluator
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.store.compute import flavors as stored_flavors
from placement_sched.store.placement import resource_providers

#: A report of capacity 0, without the reason, which the caller adds.
NOTHING: Json = {"capacity": 0, "exact": True, "limited_by": [], "stranded": {}}


def report(shared: SharedView, result: CapacityCount, per: CloudPart | None) -> Json:
    """Build the capacity report of a counted request."""
    run, counts = result.run, list[HostCount](result.counters)
    if not run.filtered_request.rejection:
        uuids = {count.uuid for count in counts}
        counts += _list_without_candidates(shared.connection, run, uuids, result.cut_by)
    rejection, chosen = run.filtered_request.rejection, run.request.chosen
    rejected = (
        {"rejection": describe_rejection(rejection), **rejection.as_json()} if rejection else {}
    )
    part = _summarize(counts)
    report = {
        "capacity": part.pop("capacity"),
        "exact": not result.inexact_reasons,
        **({"policy": chosen.policy.name} if chosen else {}),
        **({"inexact_because": list(result.inexact_reasons)} if result.inexact_reasons else {}),
        **rejected,
        **part,
        **({"per": _report_parts(shared, result, counts, per)} if per else {}),
    }
    _add_names(shared, result, [report, *report.get("per", ())])
    return report


def _summarize(counts: Iterable[HostCount]) -> Json:
    capacity, used, stranded = 0, Counter[SharedPool](), Counter[str]()
    by_reason: dict[tuple[str, str], list[LimitReason]] = defaultdict(list)
    for count in counts:
        capacity += count.instances
        by_reason[count.limit_reason[:2]].append(count.limit_reason)
        if count.pool:
            used[count.pool] += count.instances
        if count.limit_reason.is_resource and count.free:
            for name, free in count.free.items():
                stranded[name] += free
    for pool, instances in used.items():
        # The hosts fit more instances than the pool. The amounts of the surplus stay free.
        surplus = max(instances - pool.limit, 0)
        capacity -= surplus
        for name, amount in pool.own.items():
            stranded[name] += surplus * amount
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "capacity": capacity,
        "limited_by": [_limit_as_json(limit_reasons) for _, limit_reasons in ordered],
        "stranded": {name: free for name, free in sorted(stranded.items()) if free},
    }


def _limit_as_json(limit_reasons: Sequence[LimitReason]) -> Json:
    """Return the reason of several hosts, with the values that they share."""
    first, *further_reasons = limit_reasons
    detail = {"detail": first.detail} if first.detail else {}
    further = [each.values for each in further_reasons] if first.rejection else []
    values = {
        key: value
        for key, value in first.values.items()
        if all(each.get(key) == value for each in further)
    }
    hosts = len(limit_reasons)
    return {"reason": first.reason, **detail, "kind": OTHER, **values, "hosts": hosts}


def _report_parts(
    shared: SharedView, result: CapacityCount, counts: Sequence[HostCount], per: CloudPart
) -> list[Json]:
    names = _list_part_names(shared, result, counts, per)
    parts = group_rows(
        (name, count)
        for count, host_parts in zip(counts, names, strict=True)
        for name in host_parts
    )
    recount = result.recount if len(parts) <= MAX_RECOUNTED_PARTS else None
    if recount is not None:
        parts = {name: _count_again(recount, part) for name, part in parts.items()}
    return [{"name": name, **_summarize(parts[name])} for name in sorted(parts)]


def _count_again(recount: Recount, counts: Sequence[HostCount]) -> list[HostCount]:
    recounted = recount({count.uuid for count in counts})
    uuids = {count.uuid for count in recounted}
    return [*recounted, *(count for count in counts if count.uuid not in uuids)]


def _list_part_names(
    shared: SharedView, result: CapacityCount, counts: Sequence[HostCount], per: CloudPart
) -> Iterable[Iterable[str]]:
    view = result.run.view
    if per is not CloudPart.CELL:
        default = result.run.request.settings.DEFAULT.default_availability_zone
        return map(
            build_parts_lookup(view.aggregates, per, default), [count.host for count in counts]
        )
    uuids = [count.uuid for count in counts if count.uuid]
    nodes = view.caches.nodes.get(shared.connection, uuids, view.host_versions)
    cells = {node.uuid: node.cell_uuid or "" for node in nodes.values()}
    return ((cells.get(count.uuid or "", ""),) for count in counts)


def _add_names(shared: SharedView, result: CapacityCount, parts: Sequence[Json]) -> None:
    limits = [limit for part in parts for limit in part["limited_by"]]
    lists = [limit.get("aggregates") or limit.get("trees") or [] for limit in limits]
    uuids = {uuid for in_limit in lists for uuid in in_limit}
    if not uuids:
        return
    names = {
        each.uuid: each.name for each in result.run.view.host_aggregates() if each.uuid in uuids
    }
    providers = resource_providers.map_by_uuid(shared.connection, uuids - names.keys())
    names |= {uuid: provider.name for uuid, provider in providers.items()}
    for limit, in_limit in zip(limits, lists, strict=True):
        if mapping := {uuid: names[uuid] for uuid in in_limit if uuid in names}:
            limit["names"] = mapping


def _list_without_candidates(
    connection: Connection,
    run: SchedulingRun,
    counted: Collection[str | None],
    cut_by: LimitingOption | None = None,
) -> list[HostCount]:
    """List the nodes without candidates, with the step that rejects each.

    A node that lacks a resource also has its free amounts. ``counted`` are the uuids of the nodes
    with candidates, which are left out. If the option ``cut_by`` has cut the search, the nodes that
    no step rejects are beyond its limit.
    """
    search_result = run.searches.main
    if search_result is None:
        return []
    names = run.view.caches.node_names.get_current(connection)
    counts: dict[str, HostCount] = {}
    for constraint, uuids in iterate_steps(search_run(connection, run, search_result)):
        limit_reason = LimitReason.from_constraint(constraint)
        for uuid in uuids:
            if uuid in names and uuid not in counted:
                counts[uuid] = HostCount(host=names[uuid][0], uuid=uuid, limit_reason=limit_reason)
    if cut_by is not None:
        limit_reason = LimitReason.from_option(cut_by)
        for uuid, (host, _) in names.items():
            if uuid not in counted and uuid not in counts:
                counts[uuid] = HostCount(host=host, uuid=uuid, limit_reason=limit_reason)
    short = {uuid: count for uuid, count in counts.items() if count.limit_reason.is_resource}
    for uuid, free in _sum_free_amounts(run, short).items():
        short[uuid].free = free
    return list(counts.values())


def _sum_free_amounts(run: SchedulingRun, roots: Collection[str]) -> Mapping[str, dict[str, int]]:
    search_result = run.searches.main
    if search_result is None or not roots:
        return {}
    source = run.view.providers
    names = {
        name: each.search.names.classes[name]
        for each in run.searches.results
        for group in each.search.query.groups
        for name, _ in group.resources
    }
    root_of = {key: root for root, key in source.map_ids(roots).items()}
    if not search_result.search.is_single_provider:
        root_of = {each.id: each.root_uuid for each in source.list_tree_providers(root_of)}
    columns = source.read_free_columns(list(root_of), list(names.values()))
    free_by_root: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(names, 0))
    for name, class_id in names.items():
        free = np.maximum(columns[class_id], 0).tolist()
        for root, amount in zip(root_of.values(), free, strict=True):
            free_by_root[root][name] += amount
    return free_by_root


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuery:
    """Query for a capacity report: a request, and the form of the report.

    With ``per``, the report also has the capacity of each zone, aggregate, host or cell. ``policy``
    names a scheduling policy, and ``overrides`` replaces settings. The flavors are the flavor of
    ``document``, ``flavors``, or all stored flavors with ``all_flavors``. With
    ``has_budget_per_flavor``, the time limit ``[scheduler] capacity_budget`` is for each flavor
    rather than for all together. With ``has_budget_per_flavor`` or ``all_flavors``, an invalid
    flavor does not fail the whole report.
    """

    document: Document
    per: CloudPart | None = None
    policy: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    flavors: Sequence[Any] = ()
    all_flavors: bool = False
    has_budget_per_flavor: bool = False

    @property
    def is_strict(self) -> bool:
        """Return whether an invalid flavor makes the whole report fail."""
        return not (self.all_flavors or self.has_budget_per_flavor)


def report_capacity(scheduler: Evaluator, capacity_query: CapacityQuery) -> Json:
    """Report the capacity for a request, or for each of several flavors.

    The result for several flavors is ``{"flavors": [...]}``. Raises :class:`Invalid` and
    :class:`NotFound` for invalid requests, and the errors of :meth:`Scheduler.explain`.
    """
    with scheduler.source.read() as connection:
        names = read_flavors(connection, capacity_query)
    # The count places single instances, so ``num_instances`` does not apply.
    document = {**capacity_query.document, "instance_uuids": [str(uuid4())]}
    document.pop("num_instances", None)
    capacity_query = replace(capacity_query, document=document)
    # Read all requests before the connection for the count is opened: reading opens another.
    # Duplicate flavors are counted once.
    keys = [json.dumps(name, sort_keys=True) for name in names]
    flavors = dict(zip(keys, names, strict=True))
    requests = {key: read_request(scheduler, capacity_query, name) for key, name in flavors.items()}
    with scheduler.hold_query_slot(), scheduler.source.read() as connection:
        evaluation = _CapacityEvaluation(
            scheduler, SharedView(connection, scheduler.caches), capacity_query
        )
        reports = {
            key: evaluation.count(request, last=number == len(requests))
            for number, (key, request) in enumerate(requests.items(), 1)
        }
    if not (capacity_query.flavors or capacity_query.all_flavors):
        return reports[keys[0]]
    pairs = zip(keys, names, strict=True)
    return {"flavors": [{"flavor": get_flavor_name(name), **reports[key]} for key, name in pairs]}


def report_flavor_capacities(
    scheduler: Evaluator, names: Sequence[str], now: float
) -> CapacityFigures:
    """Return the capacity for each of these flavors, in total and per zone.

    ``names`` are names or ids of flavors. ``now`` is in seconds since 1970. An unknown or invalid
    flavor has no number (:class:`Reliability`). Raises other errors of :func:`report_capacity`.
    """
    with scheduler.source.read() as connection:
        stored = [
            each for each in names if stored_flavors.find_by_flavorid_or_name(connection, each)
        ]
    figures = {name: FlavorCapacity(Reliability.UNKNOWN) for name in names}
    if stored:
        capacity_query = CapacityQuery(
            document={}, per=CloudPart.ZONE, flavors=stored, has_budget_per_flavor=True
        )
        reports = report_capacity(scheduler, capacity_query)["flavors"]
        figures |= {each["flavor"]: _build_figure(each).limit_names() for each in reports}
    return CapacityFigures(now, figures)


def _build_figure(report: Json) -> FlavorCapacity:
    if "rejection" in report:
        return FlavorCapacity(Reliability.REJECTED)
    zones = {zone["name"]: zone["capacity"] for zone in report["per"]}
    state = Reliability.EXACT if report["exact"] else Reliability.INEXACT
    return FlavorCapacity(state, report["capacity"], zones)


def read_flavors(connection: Connection, capacity_query: CapacityQuery) -> Sequence[Any]:
    """List the flavors of a capacity query, as ids, names or objects.

    Raises :class:`NotFound`, with the nearest name, if a flavor is not stored. Raises
    :class:`Invalid` if the query has no flavors, or has them in more than a single field.
    """
    own = capacity_query.document.get("flavor")
    is_given = [own is not None, bool(capacity_query.flavors), capacity_query.all_flavors]
    if sum(is_given) != 1:
        raise Invalid(
            "exactly one of request_spec.flavor, flavors and all_flavors is required", json_path="$"
        )
    if capacity_query.all_flavors:
        return [flavor.name for flavor in stored_flavors.list_flavors(connection)]
    places = {f"$.flavors[{index}]": name for index, name in enumerate(capacity_query.flavors)}
    places = places or {"$.request_spec.flavor": own}
    for place, name in places.items():
        if isinstance(name, str) and not stored_flavors.find_by_flavorid_or_name(connection, name):
            stored = stored_flavors.list_flavors(connection)
            ids = [each for flavor in stored for each in (flavor.name, flavor.flavorid) if each]
            names = list_if_few(flavor.name for flavor in stored)
            hint = suggest_names("flavor", find_nearest(name, ids), names)
            raise NotFound(
                f"There is no stored flavor {name!r}{hint}",
                json_path=place,
                code="scheduler.not_found",
            )
    return list(places.values())


def read_request(
    scheduler: Evaluator, capacity_query: CapacityQuery, flavor: Any
) -> SchedulingRequest | Invalid:
    """Return the request for an instance of a flavor, or its error.

    If ``capacity_query.is_strict`` is true, the error is raised.
    """
    document, reader = {**capacity_query.document, "flavor": flavor}, scheduler.reader
    try:
        request = reader.read(
            document, policy=capacity_query.policy, overrides=capacity_query.overrides
        )
        return reader.validate(request)
    except Invalid as error:
        if capacity_query.is_strict:
            raise
        return error


@dataclass(slots=True)
class _CapacityEvaluation:
    """Evaluation of a capacity query that has taken ``spent`` seconds so far."""

    scheduler: Evaluator
    shared: SharedView
    capacity_query: CapacityQuery
    spent: float = 0.0

    def count(self, request: SchedulingRequest | Invalid, *, last: bool) -> Json:
        """Report the capacity for a request.

        ``last`` is true for the last request of the report. The error of an invalid request, such
        as an unknown zone, is reported under ``rejection``, or raised if the query's
        ``is_strict`` is true. Raises :class:`NotFound` for an unknown host, and
        :class:`Unavailable` if the time limit of the simulation has passed.
        """
        if isinstance(request, Invalid):
            return NOTHING | {"rejection": request.detail, "kind": OTHER}
        self.scheduler.source.check()
        budget, began = request.settings.scheduler.capacity_budget, monotonic()
        remaining = budget - (0.0 if self.capacity_query.has_budget_per_flavor else self.spent)
        if budget and remaining <= 0:
            inexact = {"exact": False, "inexact_because": [OUT_OF_TIME.format(seconds=budget)]}
            return NOTHING | inexact | ({"per": []} if self.capacity_query.per else {})
        # Leave half of the remaining time to the other flavors.
        share = remaining if last or self.capacity_query.has_budget_per_flavor else remaining / 2
        deadline = Deadline(began + share if budget else inf, monotonic)
        try:
            result = self._count(request, deadline)
            return report(self.shared, result, self.capacity_query.per)
        except Invalid as error:
            if self.capacity_query.is_strict:
                raise
            return NOTHING | {"rejection": error.detail, "kind": OTHER}
        finally:
            self.spent += monotonic() - began

    def _count(self, request: SchedulingRequest, deadline: Deadline) -> CapacityCount:
        connection = self.shared.connection
        check_hosts(connection, request)
        view = self.shared.get_view(request)
        result = count_capacity(self.scheduler, connection, request, view, deadline)
        check_zone(result.run.filtered_request)
        return result


def check_hosts(connection: Connection, request: SchedulingRequest) -> None:
    """Reject a request that names an unknown host.

    Raises :class:`NotFound`, with the nearest name.
    """
    for unknown in find_unknown_hosts(connection, request.spec):
        place = f"$.request_spec.{unknown.key}[{unknown.position}]"
        raise NotFound(unknown.detail, json_path=place, code="scheduler.not_found")


def check_zone(filtered: RequestFilterRun) -> None:
    """Reject a request that names an unknown availability zone.

    Raises :class:`Invalid`, with the existing zones.
    """
    for each in filtered.reports:
        if each.rejection and each.name == MapAZToPlacementAggregate.name:
            raise Invalid(each.rejection_text or "", json_path="$.request_spec.availability_zone")


def get_flavor_name(flavor: Any) -> Any:
    """Return the name of a flavor, which is a name, an id or an object."""
    return flavor if isinstance(flavor, str) else flavor.get("name", flavor)
