# SPDX-License-Identifier: Apache-2.0
"""Random small clouds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from tests.support.clouds import InventoryUsage

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
FAST_TRAIT, FORBIDDEN_TRAIT, LICENSED_TRAIT = "CUSTOM_FAST", "CUSTOM_OLD", "CUSTOM_LICENSED"
CLOUD_LAYOUTS = ("flat", "nested", "numa", "shared")

#: Amounts by resource class.
ResourceAmounts = dict[str, int]


@dataclass(frozen=True)
class Inventory:
    """Inventory of a resource class."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclass(frozen=True)
class Provider:
    """A resource provider."""

    uuid: str
    name: str
    parent: str | None
    inventories: dict[str, Inventory]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Aggregate:
    """A host aggregate. Root providers of its hosts are in the placement aggregate."""

    uuid: str
    name: str
    zone: str | None
    required: frozenset[str]
    hosts: frozenset[str]


@dataclass(frozen=True)
class HostReport:
    """Amounts that a host reports, independent of its inventories."""

    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    local_gb: int
    local_gb_used: int
    allocation_ratio: float
    num_instances: int
    io_workload: int


@dataclass(frozen=True)
class Cloud:
    """A cloud. A root provider that does not share is a compute node with its host's name."""

    providers: dict[str, Provider]
    aggregates: dict[str, Aggregate]
    disabled: frozenset[str]
    #: Allocations by consumer and provider.
    allocations: dict[str, dict[str, ResourceAmounts]]
    #: Reports by host.
    reports: dict[str, HostReport]

    @property
    def hosts(self) -> dict[str, Provider]:
        return {
            provider.name: provider
            for provider in self.providers.values()
            if provider.parent is None and SHARING_TRAIT not in provider.traits
        }

    def sum_used_amounts(self, provider: str, resource_class: str) -> int:
        return sum(
            held.get(provider, {}).get(resource_class, 0) for held in self.allocations.values()
        )

    def replace_allocations(self, consumer: str, held: dict[str, ResourceAmounts]) -> "Cloud":
        return replace(self, allocations={**self.allocations, consumer: held})


def draw_random_cloud(random: Random, layout: str) -> Cloud:
    names = [f"cn{number}" for number in range(1, random.randint(3, 5) + 1)]
    aggregates = dict(_draw_aggregates(random, names))
    joined = {
        name: frozenset(uuid for uuid, aggregate in aggregates.items() if name in aggregate.hosts)
        for name in names
    }
    pools = [_draw_uuid(random) for _ in range(random.randint(1, 2))] if layout == "shared" else []
    disabled = frozenset(name for name in names if random.random() < 0.15)
    providers: dict[str, Provider] = {}
    for name in names:
        shares = frozenset(pool for pool in pools if random.random() < 0.6)
        for provider in _draw_provider_tree(random, name, layout):
            providers[provider.uuid] = provider
        status = {DISABLED_TRAIT} if name in disabled else set()
        providers[provider.uuid] = replace(
            provider, traits=provider.traits | status, aggregates=joined[name] | shares
        )
    for number, pool in enumerate(pools):
        zone = {random.choice(list(aggregates))} if random.random() < 0.3 else set()
        stock = {"DISK_GB": Inventory(random.choice([20, 40, 60]))}
        provider = Provider(
            _draw_uuid(random),
            f"pool{number}",
            None,
            stock,
            frozenset({SHARING_TRAIT}),
            frozenset({pool, *zone}),
        )
        providers[provider.uuid] = provider
    cloud = _add_random_allocations(random, Cloud(providers, aggregates, disabled, {}, {}))
    return replace(cloud, reports={name: _draw_report(random) for name in names})


def _draw_aggregates(random: Random, names: list[str]) -> Iterator[tuple[str, Aggregate]]:
    for zone in ("az1", "az2"):
        hosts = frozenset(name for name in names if random.random() < 0.5)
        names = [name for name in names if name not in hosts]
        uuid = _draw_uuid(random)
        yield uuid, Aggregate(uuid, zone, zone, frozenset(), hosts)
    hosts = frozenset(f"cn{number}" for number in (1, 2, 3) if random.random() < 0.4)
    uuid = _draw_uuid(random)
    yield uuid, Aggregate(uuid, "licensed", None, frozenset({LICENSED_TRAIT}), hosts)


def _draw_provider_tree(random: Random, name: str, layout: str) -> Iterator[Provider]:
    root = _draw_uuid(random)
    whole = {
        "VCPU": Inventory(random.choice([4, 8]), allocation_ratio=random.choice([1.0, 2.0])),
        "MEMORY_MB": Inventory(random.choice([4096, 8192]), reserved=random.choice([0, 512])),
        "DISK_GB": Inventory(random.choice([20, 50]), step_size=random.choice([1, 1, 5])),
    }
    if layout == "shared" and random.random() < 0.7:
        del whole["DISK_GB"]
    if layout == "numa":
        parts = {name: whole.pop(name) for name in ("VCPU", "MEMORY_MB")}
        for number in range(2):
            halves = {name: replace(held, total=held.total // 2) for name, held in parts.items()}
            traits = _draw_traits(random, FAST_TRAIT, FORBIDDEN_TRAIT)
            yield Provider(_draw_uuid(random), f"{name}-numa{number}", root, halves, traits)
    if layout == "nested":
        for number in range(random.randint(1, 4)):
            stock = {"VGPU": Inventory(random.choice([1, 2, 4]), max_unit=random.choice([1, 4]))}
            traits = _draw_traits(random, FAST_TRAIT)
            yield Provider(_draw_uuid(random), f"{name}-gpu{number}", root, stock, traits)
    yield Provider(
        root, name, None, whole, _draw_traits(random, FAST_TRAIT, FORBIDDEN_TRAIT, LICENSED_TRAIT)
    )


def _draw_report(random: Random) -> HostReport:
    return HostReport(
        vcpus=random.choice([4, 8]),
        vcpus_used=random.choice([0, 3, 8]),
        memory_mb=random.choice([2048, 8192]),
        memory_mb_used=random.choice([0, 1024, 7168]),
        local_gb=random.choice([20, 50]),
        local_gb_used=random.choice([0, 15, 40]),
        allocation_ratio=random.choice([1.0, 1.5]),
        num_instances=random.randint(0, 8),
        io_workload=random.randint(0, 5),
    )


def _draw_traits(random: Random, *names: str) -> frozenset[str]:
    return frozenset(name for name in names if random.random() < 0.35)


def _add_random_allocations(random: Random, cloud: Cloud) -> Cloud:
    for provider in cloud.providers.values():
        amounts = {
            name: max(1, held.total // 2) // held.step_size * held.step_size
            for name, held in provider.inventories.items()
            if random.random() < 0.4
        }
        amounts = {
            name: amount
            for name, amount in amounts.items()
            if amount and InventoryUsage(provider.inventories[name]).can_take(amount)
        }
        if amounts:
            cloud = cloud.replace_allocations(_draw_uuid(random), {provider.uuid: amounts})
    return cloud


def _draw_uuid(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))
