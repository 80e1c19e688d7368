# SPDX-License-Identifier: Apache-2.0
"""Both sides: nova's classes in another interpreter, our plugins in this process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import Error, PluginFailed
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.model.instance import HostInstance, Instance
from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from placement_sched.scheduler.filtering import check_request, run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import RecordedInstances, collect_named_instances
from placement_sched.scheduler.host_state import HostState, build_service_view, make_host_state
from placement_sched.scheduler.plugins import get_plugins, make_full_conf
from placement_sched.scheduler.weights import BaseHostWeigher, WeighRun, run_weighers
from placement_sched.schemas.formats import parse_datetime
from placement_sched.schemas.node_report import Defaults, parse
from tests.differential.comparison import PEER_PYTHON
from tests.differential.hosts.case import FILTERS, NOW, WEIGHERS, HostsCase, JsonDocument
from tests.differential.lines import SERVE_NOVA_PROGRAM, JsonLineProgram

NOVA_PLUGINS_MODULE = Path(__file__).parent / "peer" / "plugins.py"


@dataclass(frozen=True)
class HostsResult:
    """The result of a side, with hosts as places in the case.

    A text in place of a value is a rejection of the request, or a failure.
    """

    filters: dict[str, list[bool | str]]
    chain: list[int] | str
    weighed: list[int]
    weighers: dict[str, dict[str, list[float]] | str]
    weights: list[list[Any]] | str
    #: For each instance: hosts that are ``left``, their ``weights``, and the ``chosen`` host.
    rounds: list[JsonDocument] = field(default_factory=list)


class NovaPlugins:
    """Nova's filters and weighers."""

    def __init__(self, python: Path = PEER_PYTHON) -> None:
        self._nova = JsonLineProgram(python, SERVE_NOVA_PROGRAM, NOVA_PLUGINS_MODULE)

    def run_plugins_for_case(self, case: HostsCase) -> HostsResult:
        return HostsResult(**self._nova.exchange_json_line(case.as_json()))

    def list_plugin_classes(self) -> dict[str, list[str]]:
        return self._nova.exchange_json_line({"classes": True})

    def close(self) -> None:
        self._nova.close()


class OwnPlugins:
    """Our plugins, loaded and run as in a request."""

    def __init__(self) -> None:
        self._write_settings = Settings.from_conf(read_files(make_full_conf()))

    def run_plugins_for_case(self, case: HostsCase, theirs: HostsResult) -> HostsResult:
        weighed, chosen = theirs.weighed, [item["chosen"] for item in theirs.rounds]
        enabled = {"filter_scheduler.enabled_filters": list(FILTERS)}
        settings = self._write_settings.with_overrides({**case.options, **enabled}, "nova.conf")
        plugins = get_plugins(settings, lambda: NOW)
        spec = _get_result_or_failure(lambda: parse_request_spec(case.request_spec))
        if isinstance(spec, str):
            return _build_result_with_all_rejected(case, spec, weighed)
        hosts = _HostsUnderTest(case, spec)
        filters = {type(plugin).__name__: plugin for plugin in plugins.filters}
        weighers = {type(plugin).__name__: plugin for plugin in plugins.weighers}
        chain = [filters[name] for name in case.chain]
        compared = [weighers[name] for name in WEIGHERS]
        return HostsResult(
            {name: hosts.list_verdicts_of_plugin(filters[name]) for name in FILTERS},
            _get_result_or_failure(lambda: hosts.list_remaining_hosts(chain)),
            list(weighed),
            {
                name: _get_result_or_failure(
                    partial(hosts.compute_weights_of, weighers[name], weighed)
                )
                for name in WEIGHERS
            },
            _get_result_or_failure(lambda: hosts.sort_by_weight(compared, weighed)),
            _get_result_or_failure(
                lambda: list(hosts.run_selection_rounds(chain, compared, chosen))
            ),
        )


def _build_result_with_all_rejected(
    case: HostsCase, rejection: str, weighed: Sequence[int]
) -> HostsResult:
    every: list[bool | str] = [rejection] * len(case.hosts)
    weighers = dict.fromkeys(WEIGHERS, rejection)
    return HostsResult(dict.fromkeys(FILTERS, every), rejection, list(weighed), weighers, rejection)


class _HostsUnderTest:
    """The hosts of a case as host states for our plugins, created for each run."""

    def __init__(self, case: HostsCase, spec: RequestSpec) -> None:
        self._spec = spec
        self._nodes = [parse(host["report"], Defaults(now=NOW)).node for host in case.hosts]
        self._services = [
            _build_service(number, host) for number, host in enumerate(case.hosts, start=1)
        ]
        self._aggregates = [
            _build_aggregate(number, item) for number, item in enumerate(case.aggregates, start=1)
        ]
        self._instances = [
            HostInstance.from_record(_build_instance_record(item)) for item in case.instances
        ]

    def list_verdicts_of_plugin(self, plugin: BaseHostFilter) -> list[bool | str]:
        """Return the verdict of a filter on each host.

        An extra spec may be invalid only for hosts that report its attribute. The filter fails on
        these hosts. It rejects requests that are invalid for all hosts.
        """
        verdicts: list[bool | str] = [
            _get_result_or_failure(lambda host=host: bool(self._run_filters([plugin], [host])))
            for host in self._build_host_states()
        ]
        if isinstance(_get_result_or_failure(lambda: plugin.check(self._spec)), str):
            return verdicts
        return [
            verdict.replace("rejects", "fails", 1) if isinstance(verdict, str) else verdict
            for verdict in verdicts
        ]

    def list_remaining_hosts(self, chain: list[BaseHostFilter]) -> list[int]:
        hosts = self._build_host_states()
        left = {id(host) for host in self._run_filters(chain, hosts)}
        return [place for place, host in enumerate(hosts) if id(host) in left]

    def compute_weights_of(
        self, weigher: BaseHostWeigher, weighed: Sequence[int]
    ) -> dict[str, list[float]]:
        # A single host is not weighed, so it is repeated.
        run, order = self._run_weighers(
            [weigher], weighed if len(weighed) > 1 else [*weighed, *weighed]
        )
        reports = zip(order, run.build_host_reports(), strict=True)
        weights = {place: report.weights[type(weigher).__name__] for place, report in reports}
        return {
            "raw": [weights[place].raw for place in weighed],
            "normalized": [weights[place].normalized for place in weighed],
            "multipliers": [weights[place].multiplier for place in weighed],
        }

    def sort_by_weight(
        self, weighers: Sequence[BaseHostWeigher], weighed: Sequence[int]
    ) -> list[list[Any]]:
        run, order = self._run_weighers(weighers, weighed)
        return [[place, host.weight] for place, host in zip(order, run.hosts, strict=True)]

    def run_selection_rounds(
        self,
        chain: list[BaseHostFilter],
        weighers: list[BaseHostWeigher],
        chosen: Sequence[int | None],
    ) -> Iterator[JsonDocument]:
        every, spec = self._build_host_states(), self._spec
        place_of = {id(host): place for place, host in enumerate(every)}
        filters = [plugin for plugin in chain if plugin.RUN_ON_REBUILD or not spec.is_rebuild]
        left = every
        for index, (uuid, choice) in enumerate(zip(spec.instance_uuids, chosen, strict=False)):
            single = spec.with_instance(uuid)
            left = run_filters(filters, left, single, index).hosts
            best = run_weighers(weighers, left, single).hosts
            weights = [[place_of[id(host.obj)], host.weight] for host in best]
            yield {"left": sorted(place for place, _ in weights), "weights": weights,
                   "chosen": weights[0][0] if weights else None}  # fmt: skip
            if choice is None or not left:
                return
            every[choice].consume_from_request(single)
            spec = single.with_group_member_on(every[choice].host)

    def _run_filters(
        self, filters: list[BaseHostFilter], hosts: list[HostState]
    ) -> list[HostState]:
        enabled = [
            plugin for plugin in filters if plugin.RUN_ON_REBUILD or not self._spec.is_rebuild
        ]
        check_request(enabled, self._spec)
        return run_filters(enabled, hosts, self._spec).hosts

    def _run_weighers(
        self, weighers: Sequence[BaseHostWeigher], weighed: Sequence[int]
    ) -> tuple[WeighRun, list[int]]:
        every = self._build_host_states()
        hosts = [every[place] for place in weighed]
        place_of = {id(host): place for host, place in zip(hosts, weighed, strict=True)}
        run = run_weighers(weighers, hosts, self._spec)
        return run, [place_of[id(host.obj)] for host in run.hosts]

    def _build_host_states(self) -> list[HostState]:
        recorded = RecordedInstances(
            {node.host for node in self._nodes},
            collect_named_instances(self._spec),
            by_hosts=lambda hosts: (item for item in self._instances if item.host in hosts),
            by_uuids=lambda uuids: (item for item in self._instances if item.uuid in uuids),
        )
        return [
            make_host_state(
                node,
                build_service_view(service),
                tuple(each for each in self._aggregates if node.host in each.hosts),
                recorded.get_on_host(node.host),
            )
            for node, service in zip(self._nodes, self._services, strict=True)
        ]


def _build_service(number: int, document: JsonDocument) -> Service:
    state = document["service"]
    return Service(
        id=number,
        uuid=str(UUID(int=number)),
        host=document["report"]["host"],
        binary=COMPUTE_BINARY,
        disabled=state["disabled"],
        disabled_reason=state["disabled_reason"],
        forced_down=state["forced_down"],
        last_seen_up=parse_datetime(state["last_seen_up"]),
        updated_at=NOW,
    )


def _build_aggregate(number: int, document: JsonDocument) -> HostAggregate:
    return HostAggregate(
        id=number,
        uuid=str(UUID(int=number)),
        name=f"aggregate-{number}",
        hosts=frozenset(document["hosts"]),
        metadata=document["metadata"],
    )


def _build_instance_record(document: JsonDocument) -> Instance:
    return Instance(
        uuid=document["uuid"],
        host=document["host"],
        node=document["host"],
        project_id=document["project_id"],
        user_id=None,
        display_name=document["uuid"],
        vm_state="active",
        task_state=None,
        flavor=None,
        image=document["image"],
        server_group=None,
        decision_uuid=None,
    )


def _get_result_or_failure(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except PluginFailed as failure:
        return f"fails: {failure}"
    except Error as rejection:
        return f"rejects: {rejection}"
