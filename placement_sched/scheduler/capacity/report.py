"""The answer to a question of capacity: how many, what stops the hosts, what is left stranded."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_sched.model.document import Json
from placement_sched.scheduler.capacity.counting import CapacityCount, Recount
from placement_sched.scheduler.capacity.host_counts import HostCounts, NumberColumn, sums
from placement_sched.scheduler.capacity.ledger import Stop
from placement_sched.scheduler.capacity.never_fitting import never_fitting
from placement_sched.scheduler.capacity.one_cloud import OneCloud, Per
from placement_sched.store.placement import resource_providers

#: The answer where nothing can fit, but for the reason.
NOTHING: Json = {"capacity": 0, "exact": True, "limited_by": [], "stranded": {}}


@dataclass(slots=True)
class Part:
    """Some of the hosts: how many instances fit, what stops how many, and what is free there."""

    capacity: int
    stops: Counter[Stop] = field(default_factory=Counter)
    stranded: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the part as the contract shows it."""
        return {
            "capacity": self.capacity,
            "limited_by": [_shown(stop, hosts) for stop, hosts in _sorted(self.stops)],
            "stranded": {name: free for name, free in sorted(self.stranded.items()) if free},
        }


#: Maximum number of parts that are counted again, each by itself.
_MAX_RECOUNTED = 100
#: A uuid in the detail of a constraint.
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class _Members:
    """Which rows are in which parts, pair by pair; parts are numbered, of ``number``."""

    rows: NDArray[np.int64]
    parts: NDArray[np.int64]
    number: int


def report(cloud: OneCloud, done: CapacityCount, per: Per | None) -> Json:
    """Return the answer for one request."""
    run, counts = done.run, done.counts
    if not run.narrowed.refusal:
        counts = counts.joined(never_fitting(cloud.connection, run, counts.uuids))
    every = np.arange(len(counts))
    (whole,) = _parts(counts, _Members(every, np.zeros(len(counts), np.int64), 1))
    refusal, chosen = run.narrowed.refusal, run.request.chosen
    shown = whole.as_json()
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


def _per(cloud: OneCloud, done: CapacityCount, counts: HostCounts, per: Per) -> list[Json]:
    """Return the parts of the cloud by name."""
    rows: list[int] = []
    parts: list[int] = []
    numbers: dict[str, int] = {}
    for row, names in enumerate(_names(cloud, done, counts, per)):
        for name in names:
            rows.append(row)
            parts.append(numbers.setdefault(name, len(numbers)))
    members = _Members(np.array(rows, np.int64), np.array(parts, np.int64), len(numbers))
    found = dict(zip(numbers, _parts(counts, members), strict=True))
    if done.recount is not None and len(found) <= _MAX_RECOUNTED:
        for name, number in numbers.items():
            inside = [row for row, part in zip(rows, parts, strict=True) if part == number]
            found[name] = _alone(done.recount, counts, inside)
    return [{"name": name, **found[name].as_json()} for name in sorted(found)]


def _alone(recount: Recount, counts: HostCounts, rows: Sequence[int]) -> Part:
    """Return what fits on these nodes if all of it goes there."""
    again = recount({counts.uuids[row] for row in rows})
    others = [row for row in rows if counts.uuids[row] not in set(again.uuids)]
    (part,) = _parts(again, _Members(np.arange(len(again)), np.zeros(len(again), np.int64), 1))
    zeros = np.zeros(len(others), np.int64)
    (without,) = _parts(counts, _Members(np.array(others, np.int64), zeros, 1))
    part.stops += without.stops
    for name, free in without.stranded.items():
        part.stranded[name] = part.stranded.get(name, 0) + free
    return part


def _names(
    cloud: OneCloud, done: CapacityCount, counts: HostCounts, per: Per
) -> Iterable[Iterable[str]]:
    """Return for each node the names of the parts that it is in."""
    view = done.run.cloud
    if per is not Per.CELL:
        default = done.run.request.settings.DEFAULT.default_availability_zone
        return map(cloud.parts_of(view.aggregates, per, default), counts.hosts)
    uuids = [uuid for uuid in counts.uuids if uuid]
    nodes = view.memory.nodes.get(cloud.connection, uuids, view.host_versions)
    cells = {node.uuid: node.cell_uuid or "" for node in nodes}
    return ((cells.get(uuid or "", ""),) for uuid in counts.uuids)


def _parts(counts: HostCounts, members: _Members) -> list[Part]:
    """Return what each part of the nodes takes, and what stops them."""
    rows, parts = members.rows, members.parts

    def summed(amounts: NumberColumn) -> list[int]:
        return sums(parts, amounts[rows], members.number)

    found = [Part(capacity) for capacity in summed(counts.instances)]
    taken_twice = list(_taken_twice(counts, members))
    for number, more, _ in taken_twice:
        found[number].capacity -= more
    for number, stop, nodes in _stops(counts, members):
        found[number].stops[stop] += nodes
    short = np.array([stop.is_resource for stop in counts.stops], np.bool_)[counts.stop_of]
    for name, column in counts.free.items():
        for one, free in zip(found, summed(np.where(short, column, 0)), strict=True):
            one.stranded[name] = free
    for number, more, own in taken_twice:
        for name, amount in own.items():
            found[number].stranded[name] += more * amount
    return found


def _taken_twice(
    counts: HostCounts, members: _Members
) -> Iterator[tuple[int, int, Mapping[str, int]]]:
    """Yield for parts how many instances are counted there that pools have no room for.

    With what each of them takes of its node itself.
    """
    for pool in counts.pools:
        inside = np.isin(members.rows, pool.rows)
        amounts = counts.instances[members.rows[inside]]
        here: dict[int, int] = defaultdict(int)
        for number, taken in zip(members.parts[inside].tolist(), amounts.tolist(), strict=True):
            here[number] += taken
        for number, taken in here.items():
            yield number, max(taken - pool.most, 0), pool.own


def _stops(counts: HostCounts, members: _Members) -> Iterator[tuple[int, Stop, int]]:
    """Yield for each part how many of its nodes stop for which reason."""
    number = max(len(counts.stops), 1)
    pairs, nodes = np.unique(
        members.parts * number + counts.stop_of[members.rows], return_counts=True
    )
    for pair, some in zip(pairs.tolist(), nodes.tolist(), strict=True):
        yield pair // number, counts.stops[pair % number], some


def _sorted(stops: Counter[Stop]) -> Sequence[tuple[Stop, int]]:
    return sorted(stops.items(), key=lambda item: (-item[1], item[0]))


def _shown(stop: Stop, hosts: int) -> Json:
    detail = {"detail": stop.detail} if stop.detail else {}
    return {"reason": stop.reason, **detail, "hosts": hosts}
