"""The nodes on which not one instance fits, with the first step of the search that each fails."""

from collections.abc import Collection, Mapping

import numpy as np

from placement_sched.candidates.explain.report import first_steps
from placement_sched.db.transaction import Connection
from placement_sched.model.placement.candidate import CandidateProvider
from placement_sched.scheduler.capacity.host_counts import HostCounts, NumberColumn, column_of, sums
from placement_sched.scheduler.capacity.ledger import Stop
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.funnel import search_run

#: The step of the candidates search that asks for amounts.
_RESOURCES = "resources"


def never_fitting(connection: Connection, run: Run, counted: Collection[str | None]) -> HostCounts:
    """Return the nodes without a candidate, with what is free there where they lack a resource.

    ``counted`` are the uuids of those that have one.
    """
    asked = run.searches.asked
    if asked is None:
        return HostCounts()
    known = set(counted)
    names = run.cloud.memory.node_names.current(connection)
    stops: dict[str, Stop] = {}
    for (kind, detail), uuids in first_steps(search_run(connection, run, asked)):
        stop = Stop(kind, detail)
        if kind == _RESOURCES:
            stop = Stop(detail.partition(":")[0], is_resource=True)
        stops.update((uuid, stop) for uuid in uuids if uuid not in known)
    uuids = [uuid for uuid in stops if uuid in names]
    numbers: dict[Stop, int] = {}
    stop_of = [numbers.setdefault(stops[uuid], len(numbers)) for uuid in uuids]
    return HostCounts(
        hosts=[names[uuid][0] for uuid in uuids],
        uuids=uuids,
        instances=np.zeros(len(uuids), np.int64),
        stops=list(numbers),
        stop_of=np.array(stop_of, np.int64),
        free=_free_on(
            run,
            {uuid: row for row, uuid in enumerate(uuids) if stops[uuid].is_resource},
            len(uuids),
        ),
        left=np.zeros(len(uuids), np.int64),
    )


def _free_on(run: Run, rows: Mapping[str, int], number: int) -> dict[str, NumberColumn]:
    """Return by class asked for what is free on the trees of these roots, each in its row."""
    asked = run.searches.asked
    if asked is None or not rows:
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
    of_root = source.ids_of(rows)
    row_of = {key: rows[root] for root, key in of_root.items()}
    if not asked.search.is_single:
        known = [CandidateProvider(key, root, 0, root, None) for root, key in of_root.items()]
        row_of = {one.id: rows[one.root_uuid] for one in source.whole_trees(known)}
    columns = source.free_columns(list(row_of), list(names.values()))
    at = np.fromiter(row_of.values(), np.int64, len(row_of))
    found: dict[str, NumberColumn] = {}
    for name, class_id in names.items():
        free = column_of([max(int(amount), 0) for amount in columns[class_id].tolist()])
        found[name] = column_of(sums(at, free, number))
    return found
