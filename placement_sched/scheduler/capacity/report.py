"""The answer to a question of capacity: how many, what stops the hosts, what is left stranded."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from placement_sched.candidates.explain import first_steps
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import CandidateProvider
from placement_sched.model.document import Json
from placement_sched.scheduler.capacity.counting import CapacityCount, Recount
from placement_sched.scheduler.capacity.ledger import HostCount, SharedPool, Stop
from placement_sched.scheduler.capacity.one_cloud import OneCloud, Per
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.funnel import search_run
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
