# SPDX-License-Identifier: Apache-2.0
"""Report of violations: servers that today's rules reject on their hosts.

Each server is scheduled on its own host, by its record, as if it were deleted. The rules depend on
facts of placement and on settings. The state of a compute service, limits of concurrent work or of
the number of instances, and load are no rules.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from time import monotonic

from placement_sched.db.transaction import Connection
from placement_sched.extensions.what_if.drain_plan import MovingInstance, with_requests
from placement_sched.extensions.what_if.violations.check import Checker, Server
from placement_sched.extensions.what_if.violations.providers import Claim
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.operations import Progress
from placement_sched.scheduler.scheduler import Evaluator
from placement_sched.store.compute import instances
from placement_sched.store.placement import allocations

#: Number of hosts whose servers are read at a time.
_BATCH = 500
#: Maximum number of servers that are named for a reason of no result.
_MAX_EXAMPLES = 20
_NO_NODE, _NO_CLAIM = "its host has no compute node", "it has no allocation on its host"
_NO_FLAVOR = "its flavor is not recorded"


def report_violations(
    scheduler: Evaluator,
    hosts: Collection[str] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Json:
    """Check the servers on existing hosts, or on all hosts.

    ``progress`` is called with the number of checked servers and the total. Raises
    :class:`Unavailable` if the database does not answer or no query slot is free.
    """
    began, now = monotonic(), scheduler.clock()
    with scheduler.hold_query_slot(), scheduler.source.read() as connection:
        checker = Checker(scheduler, connection)
        if hosts is None:
            hosts = {host for host, _ in instances.count_by_host(connection, None)}
        roots = group_rows((host, uuid) for uuid, (host, _) in checker.nodes.items())
        by_request: dict[bytes, list[Server]] = defaultdict(list)
        documents: dict[bytes, Json] = {}
        unknown: Counter[str] = Counter()
        for moving, claims in _iterate_instances(connection, hosts):
            own_roots = roots.get(moving.record.host or "", ())
            server = _build_server(moving, claims, own_roots, checker.providers.root_uuids)
            if isinstance(server, str):
                checker.unexamined[server].append(moving.record.uuid)
                continue
            key = moving.request_key
            documents.setdefault(key, moving.document)
            by_request[key].append(server)
            unknown.update(moving.unknown)
        total, done = sum(map(len, by_request.values())), 0
        for key, servers in by_request.items():
            progress(done, total)
            checker.check(documents[key], servers)
            done += len(servers)
        progress(total, total)
        # A server may have moved since its record was read.
        current = instances.map_hosts(connection, [each["uuid"] for each in checker.violations])
    violations = [each for each in checker.violations if current.get(each["uuid"]) == each["host"]]
    return {
        "computed_at": now.isoformat(),
        "duration": round(monotonic() - began, 3),
        "servers": total,
        "violations": sorted(violations, key=lambda each: str(each["uuid"])),
        "unknown": dict(unknown),
        "unexamined": [
            {"reason": reason, "servers": len(uuids), "examples": sorted(uuids)[:_MAX_EXAMPLES]}
            for reason, uuids in sorted(checker.unexamined.items())
        ],
    }


def _iterate_instances(
    connection: Connection, hosts: Collection[str]
) -> Iterator[tuple[MovingInstance, list[Claim]]]:
    """Yield the instances on hosts with their claims."""
    unique: dict[Claim, Claim] = {}  # a single object for the equal claims of many servers
    for batch in split_batches(sorted(hosts), _BATCH):
        records = instances.list_by_hosts(connection, batch)
        claims: dict[str, list[Claim]] = defaultdict(list)
        for row in allocations.list_by_consumers(connection, [each.uuid for each in records]):
            claim = row.provider_uuid, row.resource_class, row.used
            claims[row.consumer.uuid].append(unique.setdefault(claim, claim))
        for moving in with_requests(connection, records):
            yield moving, claims.get(moving.record.uuid, [])


def _build_server(
    moving: MovingInstance,
    claims: Collection[Claim],
    nodes: Collection[str],
    root_uuids: Mapping[str, str],
) -> Server | str:
    """Return a server on these nodes of its host, or why it is unchecked."""
    record = moving.record
    own = tuple(sorted(claim for claim in claims if root_uuids.get(claim[0]) in nodes))
    if not nodes or not own:
        return _NO_CLAIM if nodes else _NO_NODE
    if not (record.flavor or {}).keys() - {"id"}:
        return _NO_FLAVOR
    entry = {name: getattr(record, name) for name in ("uuid", "host", "project_id")}
    entry |= {"name": record.display_name, "flavor": (record.flavor or {}).get("name")}
    shared, root = tuple(sorted(set(claims).difference(own))), root_uuids[own[0][0]]
    return Server(record.uuid, entry, root, record.server_group, moving.unknown, own, shared)
