# SPDX-License-Identifier: Apache-2.0
"""StrandedResourcesWeigher: weigher that avoids stranded resources."""

from collections.abc import Sequence
from copy import copy

import numpy as np
from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.model.hardware.pci_requests import parse_aliases
from placement_sched.model.hardware.stranding import FlavorTable, FreeAmounts
from placement_sched.model.names import join_words
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    ExplainedWeights,
    Hosts,
    RequestSpec,
    Weights,
)


class StrandedResourcesWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the fewest added stranded resources.

    An amount is stranded for a flavor if it remains free after the host is filled with instances of
    the flavor. Unlike ``stranded`` in a capacity report, it may be of the class that runs out.
    The weigher prefers the host whose mean over all flavors of the cloud rises least. It thereby
    fills hosts that are in use, in the proportions of the flavors, and keeps whole hosts, NUMA
    nodes, huge pages and PCI devices for the flavors that need them. Amounts of different classes
    are added in units of the flavors' mean amount.

    The multiplier is ``[filter_scheduler] stranded_resources_weight_multiplier``. With the default,
    0, the weigher does not run, even if aggregates set it. Use 10 or more, so that the weighers of
    free CPUs, memory and disk, which spread instances, decide only between equal hosts. nova has no
    such weigher.

    The flavors of the Compute API are read again after a change. Traits, images and aggregates that
    limit a flavor to certain hosts are not considered. Flavors with ``resources:`` extra specs,
    accelerators or persistent memory are left out, because hosts do not report these amounts.
    """

    by_host = True
    reads_flavors = True
    weight_option = cfg.FloatOpt("stranded_resources_weight_multiplier", default=0.0, min=0.0)
    weight_help = (
        "Multiplier of StrandedResourcesWeigher, which leaves as little as possible that the "
        "flavors of the cloud cannot use. 0 disables it."
    )

    def __init__(self) -> None:
        super().__init__()
        pci_in_placement = self.settings.filter_scheduler.pci_in_placement
        self._aliases = parse_aliases(tuple(self.settings.pci.alias), in_placement=pci_in_placement)
        self._last: tuple[object, FlavorTable] = ((), FlavorTable(()))

    @classmethod
    def is_enabled_by(cls, settings: Settings) -> bool:
        return bool(settings.filter_scheduler.stranded_resources_weight_multiplier)

    def concerns(self, spec_obj: RequestSpec) -> bool:
        return bool(self._get_table(spec_obj).flavors)

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        if not hosts:
            return []
        table = self._get_table(spec_obj)
        before = table.read(hosts)
        after = _read_after(table, hosts, spec_obj, before)
        mean, for_all = table.compute_stranded(after)
        added = mean - table.compute_stranded(before)[0]
        weights = -(added / table.units).sum(axis=1)
        rows = np.concatenate([for_all, added], axis=1).tolist()
        return ExplainedWeights(weights.tolist(), [(table.classes, row) for row in rows])

    def describe(self, amounts: tuple[tuple[str, ...], list[float]]) -> str:
        names, row = amounts
        unused, more = _join(names, row[: len(names)]), _join(names, row[len(names) :])
        parts = [f"leaves {unused}, whichever flavor fills the host"] if unused else []
        parts += [f"strands {more} more for the average flavor"] if more else []
        return ", and ".join(parts) or "strands nothing"

    def _get_table(self, spec_obj: RequestSpec) -> FlavorTable:
        flavors, table = self._last
        if flavors is not spec_obj.cloud_flavors:
            flavors = spec_obj.cloud_flavors
            table = FlavorTable.from_flavors(flavors, self._aliases)
            self._last = flavors, table
        return table


def _read_after(
    table: FlavorTable, hosts: Hosts, spec: RequestSpec, before: FreeAmounts
) -> FreeAmounts:
    """Return the free amounts that each host would have with the instance."""
    if spec.pci_requests and spec.pci_requests.requests:
        return table.read([_with_instance(host, spec) for host in hosts], is_cached=False)
    demand = spec.vcpus, spec.memory_mb, spec.root_gb + spec.ephemeral_gb
    if spec.numa_topology and table.has_nodes:
        # With networks, the instance may get other NUMA nodes: the result is not cached.
        is_cached = spec.network_metadata is None
        return table.read(hosts, demand, spec.numa_topology, is_cached=is_cached)
    return before.subtract(demand)


def _with_instance(host: HostState, spec: RequestSpec) -> HostState:
    state = copy(host)
    # consume_from_request changes the pools and the instances in place.
    state.pci_stats, state.instances = copy(host.pci_stats), {}
    state.consume_from_request(spec)
    return state


def _join(names: Sequence[str], amounts: Sequence[float]) -> str:
    """List positive amounts with their classes, with at most two decimals."""
    pairs = ((name, round(amount, 2)) for name, amount in zip(names, amounts, strict=True))
    words = [f"{amount:,.10g} {name}" for name, amount in pairs if amount > 0]
    return join_words(words) if words else ""
