# SPDX-License-Identifier: Apache-2.0
"""Check of servers with equal requests on their hosts.

Servers with equal requests and equal claims on a host have the same result, apart from their server
groups. So a run of a request checks a server on each host. Its claims are released on all these
hosts at the same time, because a claim in the tree of a host does not affect other hosts. Claims on
shared providers are released once per run. The filters of server group policies then check each
member of a group.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import os_traits

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Invalid, Unavailable
from placement_sched.explain.host_verdict import RejectReason
from placement_sched.extensions.what_if.capacity.count import SharedView, compares_hosts
from placement_sched.extensions.what_if.violations.providers import Claim, ReleasedProviders
from placement_sched.extensions.what_if.violations.rules import build_rule
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.model.instance import HostInstance
from placement_sched.model.rejection import FILTERS
from placement_sched.scheduler.explain.funnel import build_fresh_states, get_first_spec
from placement_sched.scheduler.explain.verdicts import (
    ReportedTree,
    build_verdicts,
    compute_all_reasons_limit,
    iterate_searches,
)
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    MaximumFilter,
    RatioFilter,
    all_filters,
)
from placement_sched.scheduler.filters.compute_filter import ComputeFilter
from placement_sched.scheduler.filters.json_filter import JsonFilter
from placement_sched.scheduler.filters.metrics_filter import MetricsFilter
from placement_sched.scheduler.filters.numa_topology_filter import NUMATopologyFilter
from placement_sched.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from placement_sched.scheduler.filters.retry_filter import RetryFilter
from placement_sched.scheduler.filters.topology_spread_filter import TopologySpreadFilter
from placement_sched.scheduler.host_manager import HINTS
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_filters.root_traits import ComputeStatusFilter
from placement_sched.scheduler.scheduler import Evaluator
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.scheduler.spread import with_spread
from placement_sched.store.compute import compute_nodes, instances, server_groups

#: Plugins that are no rules: state of the service, limits of numbers, attempts, and load.
_NO_RULES = (ComputeFilter, ComputeStatusFilter, MaximumFilter, RetryFilter, MetricsFilter)
#: Kinds of rejections that are no rules: state of the service or of its cell.
_NO_RULE_KINDS = frozenset(("closed_cell", "disabled", "down", "forced_down", "never_reported"))
#: Filters that compare amounts in the report of the host, which includes the server itself.
_BY_REPORT = (RatioFilter, NUMATopologyFilter, PciPassthroughFilter, JsonFilter)
#: Kinds of entries that are no result of a rule.
_NO_RESULT_KINDS = frozenset(("not_evaluated", "candidates", "limit", "changed"))
_IMAGE_TYPES = frozenset(os_traits.get_traits("COMPUTE_IMAGE_TYPE_"))
_REPORTED = "{rule} compares amounts in the report of its host, which includes the server"
_DOUBTFUL = "{rule} depends on unknown facts of its request"


@dataclass(frozen=True, slots=True)
class Server:
    """A server with allocations on its host.

    ``entry`` describes it in reports. ``root`` is the uuid of its compute node. ``own`` are its
    claims in the tree of the node, and ``shared`` its claims on other providers. ``unknown`` has
    the unknown facts of its request.
    """

    uuid: str
    entry: Json
    root: str
    group: str | None
    unknown: tuple[str, ...]
    own: tuple[Claim, ...]
    shared: tuple[Claim, ...]


#: Servers by compute node. The servers of a node have equal claims.
Lane = Mapping[str, Sequence[Server]]


class Checker:
    """Checker of servers, which collects ``violations``.

    ``nodes`` maps the uuids of compute nodes to host and node. ``unexamined`` maps reasons to
    servers without a result.
    """

    def __init__(self, scheduler: Evaluator, connection: Connection) -> None:
        self._scheduler, self._connection = scheduler, connection
        self.nodes = compute_nodes.map_names_by_uuid(connection)
        self.providers = ReleasedProviders(connection)
        self.violations: list[Json] = []
        self.unexamined: dict[str, list[str]] = defaultdict(list)
        self._groups = {group.uuid: group for group in server_groups.search(connection)}
        members = {uuid for group in self._groups.values() for uuid in group.members}
        self._member_hosts = instances.map_hosts(connection, members)
        aggregates = scheduler.caches.aggregates.get_current(connection).all
        self._aggregate_names = {each.uuid: each.name for each in aggregates}
        self._shared_view = SharedView(connection, scheduler.caches)

    def check(self, document: Json, servers: Sequence[Server]) -> None:
        """Check servers with equal requests.

        If the request fails, for example because a trait does not exist, there is no result.
        """
        reader, results = self._scheduler.reader, list[tuple[Server, Sequence[RejectReason]]]()
        try:
            body = {**document, "instance_uuids": [str(uuid4())]}
            request = reader.validate(reader.read(body))
            third_party = _list_third_party_filters(request.plugins)
            if compares_hosts(third_party, request.spec):
                raise Invalid("a third-party filter compares hosts")
            # A hint may name the server itself, and a third-party filter may distinguish servers.
            has_hint = not document["scheduler_hints"].keys().isdisjoint(HINTS)
            for lane in _split_lanes(servers, are_distinct=bool(third_party) or has_hint):
                results += self._check_lane(request, lane)
        except Unavailable:
            raise
        except Error as failure:
            self.unexamined[failure.detail] += [each.uuid for each in servers]
            return
        filters = request.plugins.filters
        reported = {type(each).__name__ for each in filters if isinstance(each, _BY_REPORT)}
        for server, reasons in results:
            self._add_result(server, reasons, reported)

    def _check_lane(
        self, request: SchedulingRequest, lane: Lane
    ) -> Iterator[tuple[Server, Sequence[RejectReason]]]:
        """Yield each server of a lane with the reasons that reject it."""
        first = [servers[0] for servers in lane.values()]
        released = [*first[0].shared, *(claim for server in first for claim in server.own)]
        view = self._shared_view.get_view(request)
        view.providers, view.released = self.providers, frozenset(each.uuid for each in first)
        request = replace(request, plugins=_select_rules(request.plugins))
        seed = DecisionSeed.draw(self._scheduler.random)
        with self.providers.release(released, lane):
            run = self._scheduler.prepare_run(
                self._connection, request, seed, unlimited=True, view=view
            )
            reasons, members = self._explain(run, lane), defaultdict[str, list[Server]](list)
            for root, servers in lane.items():
                for server in servers:
                    if server.group in self._groups:
                        members[root].append(server)
                    else:
                        yield server, reasons.get(root, ())
            if members:
                yield from self._check_members(run, members, reasons)

    def _explain(self, run: SchedulingRun, lane: Lane) -> Mapping[str, Sequence[RejectReason]]:
        """Map rejected nodes to all their reasons."""
        passing: set[str | None] = set()
        if run.filtered_request.rejection is None:
            filtered = run.selector.filter_hosts(run.hosts, get_first_spec(run))
            passing = {host.uuid for host in filtered.hosts}
        limit = compute_all_reasons_limit(run, [each.search for _, each in iterate_searches(run)])
        reasons = {}
        for batch in split_batches((root for root in lane if root not in passing), limit):
            trees = {root: [ReportedTree(root, *self.nodes[root])] for root in batch}
            for verdict in build_verdicts(self._connection, run, trees):
                reasons[verdict.requested] = verdict.reasons
        return reasons

    def _check_members(
        self, run: SchedulingRun, lane: Lane, reasons: Mapping[str, Sequence[RejectReason]]
    ) -> Iterator[tuple[Server, Sequence[RejectReason]]]:
        """Yield the members of server groups with all their reasons.

        Only the filters of group policies and third-party filters depend on the group.
        """
        spec, plugins = get_first_spec(run), run.selector.plugins
        third_party = _list_third_party_filters(plugins)
        filters = [
            each
            for each in plugins.filters
            if each.server_group_policy
            or isinstance(each, TopologySpreadFilter)
            or each in third_party
        ]
        selector = replace(run.selector, plugins=replace(plugins, filters=tuple(filters)))
        names = {type(each).__name__ for each in filters}
        for state in build_fresh_states(
            run, run.searches.candidates, lane, with_empty_candidates=True
        ):
            root = str(state.uuid)
            earlier = [each for each in reasons.get(root, ()) if each.name not in names]
            for server in lane.get(root, ()):
                group = self._groups[server.group]
                members = [uuid for uuid in group.members if uuid != server.uuid]
                hosts = {host for uuid in members if (host := self._member_hosts.get(uuid))}
                group = replace(group, members=tuple(members), hosts=tuple(sorted(hosts)))
                own = with_spread(run.view, spec.with_group(group))
                if not third_party:  # these filters read all instances of the host
                    state.instances = {
                        uuid: HostInstance(uuid=uuid, host=state.host)
                        for uuid in members
                        if self._member_hosts.get(uuid) == state.host
                    }
                (rejections,) = selector.list_rejections([state], own)
                by_group = [RejectReason(FILTERS, name, each) for name, each in rejections]
                yield server, [*earlier, *by_group]

    def _add_result(
        self, server: Server, reasons: Iterable[RejectReason], reported: set[str]
    ) -> None:
        """Add a violation if any reason is certain."""
        certain, doubts = [], []
        for reason in reasons:
            rule, kind = build_rule(reason, self._aggregate_names), reason.rejection.kind
            if kind in _NO_RULE_KINDS:
                continue
            if kind in _NO_RESULT_KINDS:
                doubts.append(reason.reason)
            elif reason.name in reported:
                doubts.append(_REPORTED.format(rule=rule["rule"]))
            elif _is_doubtful(server, reason):
                doubts.append(_DOUBTFUL.format(rule=rule["rule"]))
            else:
                entry = {**rule, **reason.as_json()}
                del entry["changes"]
                certain.append(entry)
        if certain:
            self.violations.append({**server.entry, "reasons": certain})
        elif doubts:
            self.unexamined[doubts[0]].append(server.uuid)


def _select_rules(plugins: Plugins) -> Plugins:
    """Return plugins without weighers and plugins that are no rules."""
    filters = tuple(each for each in plugins.filters if not isinstance(each, _NO_RULES))
    requests = tuple(each for each in plugins.request_filters if not isinstance(each, _NO_RULES))
    selected = replace(plugins, filters=filters, request_filters=requests, weighers=())
    return selected.drop_failover_filters()


def _list_third_party_filters(plugins: Plugins) -> list[BaseHostFilter]:
    shipped = {*all_filters()}
    return [each for each in plugins.filters if type(each) not in shipped]


def _split_lanes(servers: Iterable[Server], *, are_distinct: bool) -> Iterable[Lane]:
    """Return lanes, whose servers have equal claims on shared providers."""
    equal = group_rows(
        ((each.root, each.own, each.shared, each.uuid if are_distinct else ""), each)
        for each in servers
    )
    lanes: dict[tuple[object, int], dict[str, Sequence[Server]]] = defaultdict(dict)
    counts: Counter[tuple[str, tuple[Claim, ...]]] = Counter()
    for (root, _, shared, _), group in equal.items():
        counts[root, shared] += 1
        lanes[shared, counts[root, shared]][root] = group
    return lanes.values()


def _is_doubtful(server: Server, reason: RejectReason) -> bool:
    """Return whether an unknown fact could prevent the rejection.

    An image may require the trait that opens an aggregate. A server that boots from a volume uses
    no local disk, and needs no support of the disk format.
    """
    values = reason.rejection.as_json()
    if "image" in server.unknown and values["kind"] == "forbidden_aggregate":
        return True
    uses_disk = values.get("resource_class") == "DISK_GB"
    needs_format = not _IMAGE_TYPES.isdisjoint(values.get("traits", ()))
    return "is_bfv" in server.unknown and (uses_disk or needs_format)
