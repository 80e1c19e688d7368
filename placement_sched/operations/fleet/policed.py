"""The allocation ratios that hosts have by the policies of their aggregates."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_aggregate import POLICY_KEY, policy_name
from placement_sched.model.node_report import RATIOS
from placement_sched.operations.fleet.state import AggregateState, ProviderState
from placement_sched.scheduler.policies.ratios import Ratios, ratios_under
from placement_sched.scheduler.policies.registry import Policies


def ratios_by_host(
    aggregates: Iterable[AggregateState], policies: Policies | None
) -> Mapping[str, Ratios]:
    """Return the ratios of each host whose policy sets any."""
    names: dict[str, list[str]] = {}
    for one in aggregates:
        if policies is not None and (policy := policy_name(one.metadata.get(POLICY_KEY, ""))):
            for host in one.hosts:
                names.setdefault(host, []).append(policy)
    found = {host: ratios_under(some, policies) for host, some in names.items() if policies}
    return {host: ratios for host, ratios in found.items() if ratios}


def settled(
    provider: ProviderState,
    before: ProviderState | None,
    node: ComputeNode,
    had: Ratios,
    has: Ratios,
) -> ProviderState:
    """Return a node's provider with the ratios that its host has by its policy.

    Those that it ``had`` by one, and that the file does not tell anew, become the node's own.
    """
    inventories = dict(provider.inventories)
    for name, ratio in RATIOS.items():
        if name not in inventories:
            continue
        one, wanted = inventories[name], has.get(ratio)
        old = None if before is None else before.inventories.get(name)
        if wanted is None and ratio in had and old is not None:
            untold = old.allocation_ratio == one.allocation_ratio
            wanted = getattr(node, ratio) if untold else None
        if wanted is not None:
            inventories[name] = replace(one, allocation_ratio=wanted)
    return replace(provider, inventories=inventories)
