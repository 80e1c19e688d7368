# SPDX-License-Identifier: Apache-2.0
"""Expected kinds and values of rejections, computed host by host.

A stage of the search is a constraint of a request group or of the root. A slot is a part of the
request that a single provider serves. Each stage removes providers from slots, and rejects a host
if a slot loses its last provider, or if a required trait is on none of the remaining providers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model import candidates_query as query
from placement_sched.model.candidates_query import AggregateTerms, TraitTerms
from tests.candidates.reference import ResourceSlot, can_provider_serve_slot, find_broken_rules
from tests.checker.cloud import DISABLED_TRAIT, Cloud, HostReport, Inventory, Provider
from tests.checker.expected_hosts import build_query, convert_cloud, find_usable_providers
from tests.checker.requests import CloudRequest, RequestGroup
from tests.support import clouds
from tests.support.clouds import InventoryUsage, uuid_of

Json = dict[str, Any]
#: Filters that compare a reported amount of the host, and their settings.
AMOUNT_FILTERS = ("CoreFilter", "RamFilter", "DiskFilter", "NumInstancesFilter", "IoOpsFilter")
MAX_INSTANCES, MAX_IO_OPS = 6, 4
FILTER_OVERRIDES = {
    "filter_scheduler.enabled_filters": ["ComputeFilter", *AMOUNT_FILTERS],
    "filter_scheduler.max_instances_per_host": MAX_INSTANCES,
    "filter_scheduler.max_io_ops_per_host": MAX_IO_OPS,
}


@dataclass(frozen=True)
class Stage:
    """A constraint, as a group with no other constraint, and the positions of its slots."""

    family: str
    detail: str
    values: Json
    constraint: query.RequestGroup
    slots: tuple[int, ...] = ()
    suffix: str = ""
    #: Whether a single provider of all slots is enough.
    is_met_by_any: bool = False

    @property
    def name(self) -> str:
        group = f" (group {self.suffix})" if self.suffix else ""
        return f"{self.family} {self.detail}{group}"


@dataclass(frozen=True)
class ExpectedRejection:
    """A stage that rejects a host, with kind and values of the rejection."""

    name: str
    values: Json


def list_stages(cloud: Cloud, request: CloudRequest) -> list[Stage]:
    stages: list[Stage] = []
    first_slot = 0
    for suffix, group in request.groups.items():
        is_split = not suffix and len(group.resources) > 1
        slots = tuple(range(first_slot, first_slot + (len(group.resources) if is_split else 1)))
        first_slot += len(slots)
        for position, (name, amount) in enumerate(sorted(group.resources.items())):
            values = {"kind": "capacity", "resource_class": name, "requested": amount}
            chosen = (slots[position],) if is_split else slots
            alone = query.RequestGroup(resources=((name, amount),))
            stages.append(Stage("resources", f"{name}:{amount}", values, alone, chosen, suffix))
        for kind, detail, names, alone in _list_group_constraints(cloud, request, suffix, group):
            key, family = ("traits", "required") if "trait" in kind else ("aggregates", "member_of")
            is_met_by_any = is_split and kind == "missing_trait"
            values = {"kind": kind, key: names}
            stages.append(Stage(family, detail, values, alone, slots, suffix, is_met_by_any))
    disabled = {"kind": "disabled", "traits": [DISABLED_TRAIT], "root": True}
    alone = query.RequestGroup(traits=TraitTerms(forbidden=frozenset({DISABLED_TRAIT})))
    return [*stages, Stage("root_required", f"!{DISABLED_TRAIT}", disabled, alone)]


def _list_group_constraints(
    cloud: Cloud, request: CloudRequest, suffix: str, group: RequestGroup
) -> Iterator[tuple[str, str, list[str], query.RequestGroup]]:
    for name in sorted(group.required):
        terms = TraitTerms((frozenset({name}),))
        # A provider of a group with a suffix has all traits of the group.
        yield "missing_trait", name, [name], query.RequestGroup(suffix="_ANY", traits=terms)
    for name in sorted(group.forbidden):
        terms = TraitTerms(forbidden=frozenset({name}))
        yield "forbidden_trait", f"!{name}", [name], query.RequestGroup(traits=terms)
    if suffix:
        return
    aggregates = cloud.aggregates.values()
    if request.zone:
        zone = sorted(each.uuid for each in aggregates if each.zone == request.zone)
        terms = AggregateTerms(member_of=(frozenset(map(uuid_of, zone)),))
        alone = query.RequestGroup(aggregates=terms)
        yield "not_in_aggregate", f"in:{','.join(zone)}", zone, alone
    required = frozenset().union(*(each.required for each in request.groups.values()))
    if reserved := sorted(each.uuid for each in aggregates if not each.required <= required):
        terms = AggregateTerms(forbidden=frozenset(map(uuid_of, reserved)))
        alone = query.RequestGroup(aggregates=terms)
        yield "forbidden_aggregate", f"!in:{','.join(reserved)}", reserved, alone


@dataclass
class HostSearch:
    """The stages of a search for a single host.

    With ``is_relaxed``, a rejected host continues as if the constraint were not requested.
    """

    cloud: Cloud
    request: CloudRequest
    root: Provider
    is_relaxed: bool
    usable: list[Provider] = field(init=False)
    _converted: clouds.Cloud = field(init=False)
    _remaining: list[set[str]] = field(init=False)
    _applied: list[tuple[Stage, bool]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._converted = convert_cloud(self.cloud)
        self.usable = find_usable_providers(self.cloud, self.root)
        self._providers = {each.uuid: each for each in self.usable}
        stages = list_stages(self.cloud, self.request)
        slots = 1 + max(slot for stage in stages for slot in stage.slots)
        self._remaining = [set(self._providers) for _ in range(slots)]

    def list_rejections(self) -> list[ExpectedRejection]:
        rejections = []
        for stage in list_stages(self.cloud, self.request):
            passes, blamed = self._apply(stage)
            if not passes:
                entry = ExpectedRejection(stage.name, self._build_values(stage, blamed))
                rejections.append(entry)
                if not self.is_relaxed:
                    break
        return rejections or self._list_combination()

    def _apply(self, stage: Stage) -> tuple[bool, set[str]]:
        """Return whether the host passes a stage, and the rejected providers."""
        met = {uuid for uuid, each in self._providers.items() if self._is_met(stage, each)}
        if not stage.slots:
            return self.root.uuid in met, {self.root.uuid}
        if stage.is_met_by_any:
            blamed = self._unite(stage.slots)
            self._applied.append((stage, bool(blamed & met)))
            return bool(blamed & met), blamed
        previous = [set(uuids) for uuids in self._remaining]
        passes, blamed = True, set()
        for slot in stage.slots:
            if previous[slot] & met:
                self._remaining[slot] = previous[slot] & met
            else:
                passes, blamed = False, blamed | previous[slot]
                if not self.is_relaxed:
                    self._remaining[slot] = set()
        return self._check_traits_again(stage, met, previous, (passes, blamed))

    def _check_traits_again(
        self, stage: Stage, met: set[str], previous: list[set[str]], result: tuple[bool, set[str]]
    ) -> tuple[bool, set[str]]:
        """Check whether providers with required traits remain after another stage."""
        passes, blamed = result
        for earlier, had_passed in self._applied:
            if not had_passed or not set(earlier.slots) & set(stage.slots):
                continue
            has_trait = {
                uuid for uuid, each in self._providers.items() if self._is_met(earlier, each)
            }
            if self._unite(earlier.slots) & has_trait:
                continue
            if passes or self.is_relaxed:
                united = set().union(*(previous[slot] for slot in earlier.slots))
                removed = (united & has_trait) - met
                blamed = blamed | removed
                if self.is_relaxed:
                    for slot in stage.slots:
                        self._remaining[slot] |= previous[slot] & removed
            passes = False
        return passes, blamed

    def _unite(self, slots: Iterable[int]) -> set[str]:
        return set().union(*(self._remaining[slot] for slot in slots))

    def _is_met(self, stage: Stage, provider: Provider) -> bool:
        group, names = stage.constraint, self._converted
        slot = ResourceSlot(group, group.resources)
        return can_provider_serve_slot(names, slot, names[provider.name], names[self.root.name])

    def _build_values(self, stage: Stage, blamed: set[str]) -> Json:
        if stage.family == "resources":
            return self._build_shortage(stage, blamed)
        if stage.family == "root_required":
            return {**stage.values, "disabled_reason": ""}
        values = dict(stage.values)
        if "aggregates" in stage.values:
            # Children that are only rejected for their root count as the root.
            aggregates = {*stage.values["aggregates"]}
            must_be_member = stage.values["kind"] == "not_in_aggregate"
            blamed = {
                uuid
                if bool(self._providers[uuid].aggregates & aggregates) != must_be_member
                else self.root.uuid
                for uuid in blamed
            }
            if not must_be_member:
                joined = set().union(*(self._providers[uuid].aggregates for uuid in blamed))
                values["aggregates"] = sorted(aggregates & joined)
        if 1 < len(self.usable) == len(blamed):
            return {**values, "provider_count": len(blamed)}
        return {**values, **self._name_providers(blamed)}

    def _name_providers(self, blamed: set[str]) -> Json:
        if blamed == {self.root.uuid}:
            return {}
        return {"providers": [each.name for each in self.usable if each.uuid in blamed]}

    def _build_shortage(self, stage: Stage, blamed: set[str]) -> Json:
        name, amount = stage.values["resource_class"], stage.values["requested"]
        values = {"resource_class": name, "requested": amount}
        holders = [each for each in self.usable if each.uuid in blamed and name in each.inventories]
        if not holders:
            named = {} if self.root.uuid in blamed else self._name_providers(blamed)
            return {"kind": "no_inventory", **values, **named}
        parts = []
        for each in holders:
            used = self.cloud.sum_used_amounts(each.uuid, name)
            part = {**values, **_describe_shortage(each.inventories[name], used, amount)}
            parts.append(part | self._name_providers({each.uuid}))
        if len(parts) == 1:
            return parts[0]
        kinds = [part["kind"] for part in parts]
        kind = "capacity" if "capacity" in kinds else kinds[0]
        return {"kind": kind, **values, "parts": parts}

    def _list_combination(self) -> list[ExpectedRejection]:
        root = self._converted[self.root.name]
        rules = find_broken_rules(self._converted, build_query(self.cloud, self.request), root)
        if rules is None:
            return []
        parts = []
        if rules.is_isolation:
            parts.append({"kind": "group_policy"})
        for each in rules.classes:
            values = {"resource_class": each.name, "requested": sum(each.amounts)}
            amounts = {"amounts": list(each.amounts), "free_amounts": list(each.free_amounts)}
            free = max(each.free_amounts, default=0)
            parts.append({"kind": "capacity", **values, "free": free, **amounts})
        if rules.is_trait_combination:
            parts.append({"kind": "trait_combination"})
        isolates = "group_policy=isolate" if self.request.isolate else ""
        entry = {"kind": "combination"} | ({"parts": parts} if parts else {})
        return [ExpectedRejection(f"combination {isolates}".strip(), entry)]


def _describe_shortage(inventory: Inventory, used: int, amount: int) -> Json:
    """Return the limit of an inventory that the amount exceeds first."""
    capacity = max(InventoryUsage(inventory).capacity, 0)
    free = max(capacity - used, 0)
    if not capacity:
        fields = ("total", "reserved", "allocation_ratio")
        numbers = {name: getattr(inventory, name) for name in fields}
        return {"kind": "capacity", "free": 0, "capacity": 0, **numbers}
    if amount > free:
        return {"kind": "capacity", "free": free, "capacity": capacity}
    if amount > inventory.max_unit:
        return {"kind": "allocation_unit", "max_unit": inventory.max_unit}
    if amount < inventory.min_unit:
        return {"kind": "allocation_unit", "min_unit": inventory.min_unit}
    return {"kind": "allocation_unit", "step_size": inventory.step_size}


def list_filter_rejections(
    cloud: Cloud, request: CloudRequest, host: str
) -> list[ExpectedRejection]:
    """List the rejections by the filters of ``FILTER_OVERRIDES``."""
    rejections = []
    if host in cloud.disabled:
        values = {"kind": "disabled", "disabled_reason": ""}
        rejections.append(ExpectedRejection("ComputeFilter", values))
    report = cloud.reports[host]
    resources = request.groups[""].resources
    amounts = {
        "CoreFilter": ("VCPU", "VCPU", 1, report.vcpus, report.vcpus_used),
        "RamFilter": ("MEMORY_MB", "MB", 1, report.memory_mb, report.memory_mb_used),
        "DiskFilter": ("DISK_GB", "MB", 1024, report.local_gb, report.local_gb_used),
    }
    for name, (resource_class, unit, factor, total, used) in amounts.items():
        requested = resources.get(resource_class, 0) * factor
        entry = _describe_host_shortage(requested, total * factor, used * factor, report)
        if entry:
            subject = {"kind": "capacity", "resource_class": resource_class, "unit": unit}
            rejections.append(ExpectedRejection(name, {**subject, **entry}))
    counts = (
        ("NumInstancesFilter", "max_instances", report.num_instances, MAX_INSTANCES),
        ("IoOpsFilter", "max_io_ops", report.io_workload, MAX_IO_OPS),
    )
    for name, kind, count, maximum in counts:
        if count >= maximum:
            values = {"kind": kind, "actual": count, "maximum": maximum}
            rejections.append(ExpectedRejection(name, {**values, "option": f"{kind}_per_host"}))
    return rejections


def _describe_host_shortage(requested: int, total: int, used: int, report: HostReport) -> Json:
    capacity = total * report.allocation_ratio
    if requested <= total and requested <= capacity - used:
        return {}
    values = {"requested": requested, "free": capacity - used, "capacity": capacity}
    return {**values, "total": total, "allocation_ratio": report.allocation_ratio}


#: Keys of a reason that are no values of the rejection.
_OTHER_KEYS = {"stage", "name", "reason", "changes", "host", "node"}
#: Maximum number of providers that a rejection names.
_MAX_NAMED = 3


def has_values(entry: Json, expected: Json) -> bool:
    """Return whether a rejection in JSON has exactly the expected values.

    A list that is cut must have items of the expected list, and ``more`` the number of the others.
    """
    actual = {key: value for key, value in entry.items() if key not in _OTHER_KEYS}
    more = actual.pop("more", 0)
    if actual.keys() != expected.keys():
        return False
    for key, value in actual.items():
        if key in ("parts", "providers", "free_amounts"):
            omitted = more if len(expected[key]) > _MAX_NAMED else 0
            if len(value) + omitted != len(expected[key]):
                return False
            if not all(_is_listed(item, expected[key]) for item in value):
                return False
        elif value != expected[key]:
            return False
    return not more or any(len(expected.get(key, ())) > _MAX_NAMED for key in actual)


def _is_listed(item: Any, expected: list[Any]) -> bool:
    if isinstance(item, dict):
        return any(has_values(item, each) for each in expected)
    return item in expected
