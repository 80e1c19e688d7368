# SPDX-License-Identifier: Apache-2.0
"""Check of servers with equal requests on their hosts.

Servers with equal requests and equal claims on a host have the same result, apart from their server
groups. So a run of a request checks a server on each host. Its claims are released on all these
hosts at the same time, because a claim in the tree of a host does not affect other hosts. Claims on
shared providers are released once per run. The filters run again for each member of a group.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import os_traits

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Unavailable
from placement_sched.explain.host_verdict import RejectReason
from placement_sched.extensions.what_if.capacity.count import SharedView, compares_hosts
from placement_sched.extensions.what_if.violations.providers import Claim, ReleasedProviders
from placement_sched.extensions.what_if.violations.rules import build_rule
from placement_sched.extensions.what_if.violations.servers import Server, Servers
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.model.preferences import find_spread_request
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
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_filters.root_traits import ComputeStatusFilter
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import SchedulingRun

#: Filters that are no rules: state of the service, limits of numbers, attempts, and load.
_NO_RULES = (ComputeFilter, MaximumFilter, RetryFilter, MetricsFilter)
#: Kinds of rejections that are no rules: state of the service or of its cell.
_NO_RULE_KINDS = frozenset(("closed_cell", "disabled", "down", "forced_down", "never_reported"))
#: Filters that compare amounts in the report of the host, which includes the server itself.
_BY_REPORT = (RatioFilter, NUMATopologyFilter, PciPassthroughFilter, JsonFilter)
#: Kinds of entries without a result.
_NO_RESULT_KINDS = frozenset(("not_evaluated", "candidates", "limit", "changed"))
_IMAGE_TYPES = frozenset(os_traits.get_traits("COMPUTE_IMAGE_TYPE_"))
_REPORTED = "{rule} compares amounts in the report of its host, which includes the server"
_DOUBTFUL = "{rule} depends on facts of its request that are not known"
_UNENFORCED = "no enabled filter or weigher enforces the policy of its server group"

#: Servers by compute node. The servers of a node have equal claims.
Lane = Mapping[str, Sequence[Server]]


@dataclass(slots=True)
class Checker:
    """Checker of servers, which collects ``violations``.

    ``nodes`` maps the uuids of compute nodes to host and node.
    """

    scheduler: Scheduler
    connection: Connection
    nodes: Mapping[str, tuple[str, str]]
    providers: ReleasedProviders
    servers: Servers
    aggregate_names: Mapping[str, str]
    violations: list[Json] = field(default_factory=list)
    _shared_view: SharedView = field(init=False)

    def __post_init__(self) -> None:
        self._shared_view = SharedView(self.connection, self.scheduler.caches)

    def check_equal(self, document: Json, servers: Sequence[Server]) -> None:
        """Check servers with equal requests.

        If the request fails, for example because a trait does not exist, there is no result.
        """
        remaining = []
        for server in servers:
            if self._counts_domains(document, server):
                group = self.servers.get_group_without(server)
                named = {"instance_group": group.as_document()} if group else {}
                self._check(document | named, [replace(server, group=None)])
            else:
                remaining.append(server)
        if remaining:
            self._check(document, remaining)

    def _counts_domains(self, document: Json, server: Server) -> bool:
        """Return whether the members of the server's group are counted by domain."""
        if server.group not in self.servers.groups:
            return False
        try:
            extra_specs = document["flavor"].get("extra_specs") or {}
            return find_spread_request(extra_specs, document["scheduler_hints"]) is not None
        except Error:  # the check reports it
            return False

    def _check(self, document: Json, servers: Sequence[Server]) -> None:
        reader, results = self.scheduler.reader, dict[Server, list[RejectReason]]()
        try:
            body = {**document, "instance_uuids": [str(uuid4())]}
            request = reader.validate(reader.read(body))
            enforced = [each for each in servers if self._is_enforced(request.plugins, each)]
            for lane in _split_lanes(request, enforced):
                results |= self._check_lane(request, lane)
        except Unavailable:
            raise
        except Error as failure:
            self.servers.unexamined[failure.detail] += [each.uuid for each in servers]
            return
        reported = {
            type(each).__name__ for each in request.plugins.filters if isinstance(each, _BY_REPORT)
        }
        for server, reasons in results.items():
            self._add_result(server, reasons, reported)

    def _is_enforced(self, plugins: Plugins, server: Server) -> bool:
        group = self.servers.groups.get(server.group or "")
        if group is None or plugins.enforces(group.policy):
            return True
        self.servers.unexamined[_UNENFORCED].append(server.uuid)
        return False

    def _check_lane(
        self, request: SchedulingRequest, lane: Lane
    ) -> Iterable[tuple[Server, list[RejectReason]]]:
        """Return each server of a lane with the reasons that reject it."""
        first = [servers[0] for servers in lane.values()]
        released = [*first[0].shared, *(claim for server in first for claim in server.own)]
        others = _list_third_party_filters(request.plugins)
        roots = None if compares_hosts(others, request.spec) else lane.keys()
        view = self._shared_view.get_view(request)
        view.providers, view.released = self.providers, frozenset(each.uuid for each in first)
        request = replace(request, plugins=_select_rules(request.plugins))
        seed = DecisionSeed.draw(self.scheduler.random)
        with self.providers.release(released, roots):
            run = self.scheduler.prepare_run(
                self.connection, request, seed, unlimited=True, view=view
            )
            reasons = self._explain(run, lane)
            grouped = group_rows(
                (root, each)
                for root, servers in lane.items()
                for each in servers
                if each.group in self.servers.groups
            )
            results = [
                (server, reasons.get(root, []))
                for root, servers in lane.items()
                for server in servers
                if server.group not in self.servers.groups
            ]
            return [*results, *self._check_members(run, grouped, reasons)]

    def _explain(self, run: SchedulingRun, lane: Lane) -> dict[str, list[RejectReason]]:
        """Map rejected nodes to all their reasons."""
        passing: set[str | None] = set()
        if run.filtered_request.rejection is None:
            filtered = run.selector.filter_hosts(run.hosts, get_first_spec(run))
            passing = {host.uuid for host in filtered.hosts}
        limit = compute_all_reasons_limit(run, [each.search for _, each in iterate_searches(run)])
        reasons = {}
        for batch in split_batches((root for root in lane if root not in passing), limit):
            trees = {root: [ReportedTree(root, *self.nodes[root])] for root in batch}
            for verdict in build_verdicts(self.connection, run, trees):
                reasons[verdict.requested] = list(verdict.reasons)
        return reasons

    def _check_members(
        self, run: SchedulingRun, lane: Lane, reasons: Mapping[str, Sequence[RejectReason]]
    ) -> Iterator[tuple[Server, list[RejectReason]]]:
        """Yield the members of server groups with all their reasons."""
        requests = run.searches.candidates.requests
        candidates = Candidates(requests=tuple(each for each in requests if each.root_uuid in lane))
        states = build_fresh_states(run, candidates, lane, with_empty_candidates=True)
        spec = get_first_spec(run)
        for state in states if lane else ():
            root = str(state.uuid)
            earlier = [each for each in reasons.get(root, ()) if each.stage != FILTERS]
            for server in lane[root]:
                group = self.servers.get_group_without(server)
                own = spec if group is None else spec.with_group(group)
                (rejections,) = run.selector.list_rejections([state], own)
                by_filter = [RejectReason(FILTERS, name, each) for name, each in rejections]
                yield server, [*earlier, *by_filter]

    def _add_result(
        self, server: Server, reasons: Iterable[RejectReason], reported: frozenset[str] | set[str]
    ) -> None:
        """Add a violation if any reason is certain."""
        certain, doubts = [], []
        for reason in reasons:
            rule = build_rule(reason, self.aggregate_names)
            if reason.rejection.kind in _NO_RULE_KINDS:
                continue
            if reason.rejection.kind in _NO_RESULT_KINDS:
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
            names = ("uuid", "name", "project_id", "flavor", "host")
            entry = {name: getattr(server, name) for name in names}
            self.violations.append({**entry, "reasons": certain})
        elif doubts:
            self.servers.unexamined[doubts[0]].append(server.uuid)


def _select_rules(plugins: Plugins) -> Plugins:
    """Return plugins without plugins that are no rules."""
    filters = [each for each in plugins.filters if not isinstance(each, _NO_RULES)]
    request_filters = [
        each for each in plugins.request_filters if not isinstance(each, ComputeStatusFilter)
    ]
    selected = replace(
        plugins, filters=tuple(filters), request_filters=tuple(request_filters), weighers=()
    )
    return selected.drop_failover_filters()


def _list_third_party_filters(plugins: Plugins) -> list[BaseHostFilter]:
    shipped = {*all_filters()}
    return [each for each in plugins.filters if type(each) not in shipped]


def _split_lanes(request: SchedulingRequest, servers: Iterable[Server]) -> Iterator[Lane]:
    """Yield lanes, whose servers have equal claims on shared providers.

    A third-party filter may distinguish equal servers. If it compares hosts, a lane has a single
    server, and the run finds all hosts.
    """
    others = _list_third_party_filters(request.plugins)
    is_alone = compares_hosts(others, request.spec)
    equal = group_rows(
        ((each.root, each.own, each.shared, each.uuid if others else ""), each) for each in servers
    )
    lanes: dict[tuple[object, ...], dict[str, Sequence[Server]]] = defaultdict(dict)
    counts: Counter[tuple[str, tuple[Claim, ...]]] = Counter()
    for number, ((root, _, shared, _), group) in enumerate(equal.items()):
        counts[root, shared] += 1
        lanes[shared, number if is_alone else counts[root, shared]][root] = group
    yield from lanes.values()


def _is_doubtful(server: Server, reason: RejectReason) -> bool:
    """Return whether a fact that is not known could prevent the rejection.

    An image may require the trait that opens an aggregate. A server that boots from a volume uses
    no local disk, and needs no support of the disk format.
    """
    values = reason.rejection.as_json()
    if "image" in server.unknown and values["kind"] == "forbidden_aggregate":
        return True
    uses_disk = values.get("resource_class") == "DISK_GB" or not _IMAGE_TYPES.isdisjoint(
        values.get("traits", ())
    )
    return "is_bfv" in server.unknown and uses_disk
