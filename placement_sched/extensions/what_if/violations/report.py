# SPDX-License-Identifier: Apache-2.0
"""Report of violations: servers that today's rules reject on their hosts.

Each server is scheduled on its own host, by its record, as if it were deleted. The rules are what
depends on facts of placement and on settings. The state of a compute service, limits of concurrent
work or of the number of instances, and load are no rules.
"""

from collections.abc import Collection
from time import monotonic

from placement_sched.extensions.what_if.violations.check import Checker
from placement_sched.extensions.what_if.violations.providers import ReleasedProviders
from placement_sched.extensions.what_if.violations.servers import read_servers
from placement_sched.model.document import Json
from placement_sched.operations import Progress
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import get_nodes
from placement_sched.store.compute import compute_nodes, instances

#: Maximum number of servers that are named for a reason of no result.
_MAX_EXAMPLES = 20


def report_violations(
    scheduler: Scheduler,
    hosts: Collection[str] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Json:
    """Check the servers on these hosts, or on all hosts.

    ``progress`` is called with the number of checked servers and the total. Raises
    :class:`Invalid`, with the nearest name, for an unknown host, and :class:`Unavailable` if the
    database does not answer or no query slot is free.
    """
    began, now = monotonic(), scheduler.clock()
    with scheduler.hold_query_slot(), scheduler.source.read() as connection:
        get_nodes(connection, list(hosts or ()), "$.host")
        nodes = compute_nodes.map_names_by_uuid(connection)
        aggregates = scheduler.caches.aggregates.get_current(connection)
        providers = ReleasedProviders(connection)
        servers = read_servers(connection, nodes, providers.root_uuids, hosts)
        names = {each.uuid: each.name for each in aggregates.all}
        checker = Checker(scheduler, connection, nodes, providers, servers, names)
        total, done = sum(map(len, servers.by_request.values())), 0
        for key, equal in servers.by_request.items():
            progress(done, total)
            checker.check_equal(servers.documents[key], equal)
            done += len(equal)
        progress(total, total)
        # A server may have moved since its record was read.
        current = instances.map_hosts(connection, [each["uuid"] for each in checker.violations])
    violations = [each for each in checker.violations if current.get(each["uuid"]) == each["host"]]
    return {
        "computed_at": now.isoformat(),
        "duration": round(monotonic() - began, 3),
        "servers": total,
        "violations": sorted(violations, key=lambda each: str(each["uuid"])),
        "unknown": dict(servers.unknown),
        "unexamined": [
            {"reason": reason, "servers": len(uuids), "examples": sorted(uuids)[:_MAX_EXAMPLES]}
            for reason, uuids in sorted(servers.unexamined.items())
        ],
    }
