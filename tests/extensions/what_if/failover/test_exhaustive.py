# SPDX-License-Identifier: Apache-2.0
"""Certain statements of failover reports, compared with all placements.

A cloud is a number of free amounts, by provider and resource class. An option of a flavor on a host
is the amounts that an instance takes. NumInstancesFilter is an amount too, 1 per instance.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product
from uuid import uuid4

import pytest

from placement_sched.extensions.what_if.failover import report
from tests.exploring import SeededRandom, scale_example_count
from tests.extensions.what_if.failover.queries import FAILOVER_CAPACITY_PATH
from tests.scheduler.fleets import load_fleet

pytestmark = pytest.mark.slow

POOL, POOL_AGGREGATE = "pool", str(uuid4())
RATIOS = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0}
FAST, NEAR = "CUSTOM_FAST", "CUSTOM_NEAR"
#: Placements of further instances that are tried for a flavor, at most.
MAX_PLACEMENTS = 100
MAX_PER_HOST = 3


@dataclass(frozen=True)
class Flavor:
    """A flavor. ``devices`` has a required trait, or an empty text, for each device."""

    name: str
    vcpus: int
    memory_gb: int
    disk: int
    trait: str = ""
    devices: tuple[str, ...] = ()

    def as_document(self):
        extra_specs = {f"trait:{self.trait}": "required"} if self.trait else {}
        for number, trait in enumerate(self.devices, 1):
            extra_specs[f"resources{number}:VGPU"] = "1"
            extra_specs |= {f"trait{number}:{trait}": "required"} if trait else {}
        if len(self.devices) > 1:
            extra_specs["group_policy"] = "none"
        sizes = {"vcpus": self.vcpus, "memory_mb": 1024 * self.memory_gb, "root_gb": self.disk}
        return {"name": self.name, "id": self.name, **sizes, "extra_specs": extra_specs}


FLAVORS = [
    Flavor("small", 1, 1, 1),
    Flavor("wide", 3, 1, 1),
    Flavor("medium", 1, 2, 2),
    Flavor("large", 1, 4, 1),
    Flavor("deep", 1, 1, 5),
    Flavor("fast", 1, 2, 1, trait=FAST),
    Flavor("device", 1, 1, 1, devices=("",)),
    Flavor("near", 1, 1, 1, devices=(NEAR,)),
    Flavor("pair", 1, 1, 1, devices=("", NEAR)),
]


@dataclass
class Cloud:
    """A cloud: capacity and max_unit of each inventory, traits, and instances.

    An instance is a host, a flavor, an option, and whether it is a member of the group.
    """

    hosts: list[str]
    flavors: list[Flavor]
    inventories: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    traits: dict[str, set[str]] = field(default_factory=dict)
    sharing: set[str] = field(default_factory=set)
    has_maximum_per_host: bool = False
    instances: list[tuple[str, Flavor, tuple, bool]] = field(default_factory=list)

    def list_options(self, flavor, host):
        if flavor.trait and flavor.trait not in self.traits.get(host, ()):
            return []
        disks = [(owner, "DISK_GB") for owner in (host, *([POOL] if host in self.sharing else []))]
        gpus = [f"{host}_gpu{number}" for number in range(2)]
        choices = [
            [gpu for gpu in gpus if not trait or trait in self.traits.get(gpu, ())]
            for trait in flavor.devices
        ]
        options = set()
        for disk, *devices in product(disks, *choices):
            amounts = Counter({disk: flavor.disk, (host, "VCPU"): flavor.vcpus})
            amounts[host, "MEMORY_GB"] = flavor.memory_gb
            amounts.update((gpu, "VGPU") for gpu in devices)
            if self.has_maximum_per_host:
                amounts[host, "COUNT"] = 1
            if all(
                amount <= self.inventories.get(key, (0, 0))[1] for key, amount in amounts.items()
            ):
                options.add(tuple(sorted(amounts.items())))
        return sorted(options)

    def compute_free(self):
        free = Counter({key: capacity for key, (capacity, _) in self.inventories.items()})
        for _, _, option, _ in self.instances:
            free.subtract(dict(option))
        return free

    def as_document(self):
        inventories, counts = self.inventories, Counter(each[0] for each in self.instances)
        hosts = []
        for host in self.hosts:
            (vcpus, _), (memory, largest) = (
                inventories[host, "VCPU"],
                inventories[host, "MEMORY_GB"],
            )
            disk, _ = inventories.get((host, "DISK_GB"), (0, 0))
            own = {"MEMORY_MB": {"total": 1024 * memory, "max_unit": 1024 * largest}}
            gpus = [
                {
                    "name": gpu,
                    "inventories": {"VGPU": {"total": inventories[gpu, "VGPU"][0]}},
                    "traits": sorted(self.traits.get(gpu, ())),
                }
                for gpu in (f"{host}_gpu0", f"{host}_gpu1")
                if (gpu, "VGPU") in inventories
            ]
            sizes = {"vcpus": vcpus, "memory_mb": 1024 * memory, "local_gb": disk}
            more = {
                "stats": {"num_instances": counts[host]},
                "last_seen_up": "2099-01-01T00:00:00Z",
            }
            own |= {} if disk else {"DISK_GB": None}
            traits = sorted(self.traits.get(host, ()))
            hosts.append(
                {"host": host, **RATIOS, **sizes, **more, "inventories": own, "traits": traits}
                | ({"providers": gpus} if gpus else {})
            )
        document = {"flavors": [each.as_document() for each in self.flavors], "hosts": hosts}
        if self.sharing:
            sharing = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "aggregates": [POOL_AGGREGATE]}
            pool = {"DISK_GB": {"total": inventories[POOL, "DISK_GB"][0]}}
            document["providers"] = [{"name": POOL, "inventories": pool, **sharing}]
            members = {"uuid": POOL_AGGREGATE, "hosts": sorted(self.sharing)}
            document["aggregates"] = [{"name": "storage", **members}]
        owner = {"project": "p", "user": "u"}
        document["server_groups"] = [{"name": "apart", "policy": "anti-affinity", **owner}]
        document["instances"] = []
        for number, (host, flavor, option, is_member) in enumerate(self.instances):
            allocations = {}
            for (provider, name), amount in option:
                if name != "COUNT":
                    pair = ("MEMORY_MB", 1024 * amount) if name == "MEMORY_GB" else (name, amount)
                    allocations.setdefault(provider, {}).update([pair])
            entry = {"name": f"i{number}", "host": host, "flavor": flavor.name, **owner}
            entry |= {"server_group": "apart"} if is_member else {}
            document["instances"].append({**entry, "allocations": allocations})
        return document


def draw_cloud(random):
    hosts = [f"cn{number}" for number in range(random.randint(2, 4))]
    cloud = Cloud(hosts, random.sample(FLAVORS, 3), has_maximum_per_host=random.random() < 0.2)
    has_pool, has_gpus = random.random() < 0.25, any(each.devices for each in cloud.flavors)
    for host in hosts:
        memory = random.randint(2, 7)
        cloud.inventories[host, "VCPU"] = (random.randint(1, 5),) * 2
        cloud.inventories[host, "MEMORY_GB"] = (memory, random.choice([memory, memory, 2]))
        if has_pool and random.random() < 0.7:
            cloud.sharing.add(host)
        if host not in cloud.sharing or random.random() < 0.3:
            cloud.inventories[host, "DISK_GB"] = (random.randint(3, 9),) * 2
        if cloud.has_maximum_per_host:
            cloud.inventories[host, "COUNT"] = (MAX_PER_HOST,) * 2
        for gpu in (f"{host}_gpu0", f"{host}_gpu1") if has_gpus else ():
            if random.random() < 0.7:
                cloud.inventories[gpu, "VGPU"] = (random.randint(1, 3),) * 2
                cloud.traits[gpu] = {NEAR} if random.random() < 0.5 else set()
        cloud.traits[host] = {FAST} if random.random() < 0.6 else set()
    if cloud.sharing:
        cloud.inventories[POOL, "DISK_GB"] = (random.randint(3, 12),) * 2
    for _ in range(random.randint(1, 6)):
        flavor, host = random.choice(cloud.flavors), random.choice(hosts)
        free = cloud.compute_free()
        options = [each for each in cloud.list_options(flavor, host) if fits(free, each)]
        if options:
            used = {each[0] for each in cloud.instances if each[3]}
            is_member = random.random() < 0.15 and host not in used
            cloud.instances.append((host, flavor, random.choice(options), is_member))
    return cloud


def fits(free, option):
    return all(free[key] >= amount for key, amount in option)


def count_stuck(cloud, failed, further=()):
    """Return the smallest number of instances without a host if hosts fail.

    Instances move in turn, in any order. An instance frees its share of a pool when it
    moves, so the order matters only with a pool.
    """
    instances = [*cloud.instances, *further]
    free = Cloud(**{**vars(cloud), "instances": instances}).compute_free()
    keys = sorted(free)
    destinations = [host for host in cloud.hosts if host not in failed]
    occupied = frozenset(each[0] for each in instances if each[3]) - set(failed)
    moving = sorted((each for each in instances if each[0] in failed), key=str)

    @cache
    def count(remaining, amounts, members):
        best = len(remaining)
        for position, (_, flavor, own, is_member) in enumerate(remaining):
            later = (*remaining[:position], *remaining[position + 1 :])
            for host in destinations:
                if is_member and host in members:
                    continue
                for option in cloud.list_options(flavor, host):
                    after = Counter(dict(zip(keys, amounts, strict=True)))
                    if not fits(after, option):
                        continue
                    after.subtract(dict(option))
                    after.update(dict(own))
                    occupied_after = members | ({host} if is_member else set())
                    best = min(
                        best, count(later, tuple(after[key] for key in keys), occupied_after)
                    )
                    if not best:
                        return 0
            if not cloud.sharing:
                return min(best, 1 + count(later, amounts, members))
        return best

    return count(tuple(moving), tuple(free[key] for key in keys), occupied)


def list_placements(cloud, flavor, number):
    """List the placements of ``number`` further instances, as entries of ``instances``."""
    choices = [
        (host, flavor, option, False)
        for host in cloud.hosts
        for option in cloud.list_options(flavor, host)
    ]
    placements = []

    def extend(first, free, chosen):
        if len(chosen) == number:
            placements.append(chosen)
            return
        for position in range(first, len(choices)):
            option = choices[position][2]
            if fits(free, option) and len(placements) < 20 * MAX_PLACEMENTS:
                after = Counter(free)
                after.subtract(dict(option))
                extend(position, after, [*chosen, choices[position]])

    extend(0, cloud.compute_free(), [])
    return placements


def check_states(cloud, result, sets):
    failures = {tuple(failure["hosts"]): failure for failure in result["failures"]}
    for hosts in sets:
        stuck = count_stuck(cloud, hosts)
        if (failure := failures.get(hosts)) is None:
            assert not stuck, f"{hosts} is covered"
        elif failure["state"] == "uncovered":
            assert stuck or not result["exact"], f"{hosts} is uncovered"
            assert not failure["nowhere"] or failure["stuck"] >= stuck


def check_remaining(cloud, row, random):
    """Compare the bounds of a flavor with placements of further instances."""
    flavor = next(each for each in cloud.flavors if each.name == row["flavor"])
    stuck_before = {host: count_stuck(cloud, (host,)) for host in cloud.hosts}
    for number in range(1, row["remaining"] + 1):
        placements = list_placements(cloud, flavor, number)
        for further in random.sample(placements, min(len(placements), MAX_PLACEMENTS)):
            after = {host: count_stuck(cloud, (host,), further) for host in cloud.hosts}
            assert all(after[host] <= stuck_before[host] for host in cloud.hosts), (row, further)
    if row["at_most"] is None:
        return
    placements = list_placements(cloud, flavor, row["at_most"] + 1)
    if not row["breaks"]:
        assert not placements, row
        return
    domain, least = row["breaks"]["domain"], row["breaks"]["instances"] - row["breaks"]["placed"]
    for further in random.sample(placements, min(len(placements), MAX_PLACEMENTS)):
        stuck = count_stuck(cloud, (domain,), further)
        assert stuck > stuck_before[domain], (row, further)
        assert stuck >= least, (row, further)


def test_certain_statements_hold_for_all_placements(make_new_app, monkeypatch):
    statements = Counter()
    for number in range(scale_example_count(25)):
        random = SeededRandom.numbered(number)
        cloud = draw_cloud(random)
        enabled = "NumInstancesFilter," if cloud.has_maximum_per_host else ""
        app = make_new_app(
            filter_scheduler__max_instances_per_host=MAX_PER_HOST,
            filter_scheduler__enabled_filters=f"{enabled}ComputeFilter,ServerGroupAntiAffinityFilter",
        )
        load_fleet(app, json.dumps(cloud.as_document()))
        response = app.post_json(FAILOVER_CAPACITY_PATH, {}).json
        check_states(cloud, response, [(host,) for host in cloud.hosts])
        for row in response["remaining"]:
            check_remaining(cloud, row, random)
            statements["remaining"] += row["remaining"] > 0
            statements["at_most"] += bool(row["breaks"])
        pairs = app.post_json(FAILOVER_CAPACITY_PATH, {"host_failures": 2, "remaining": False}).json
        sets = list(combinations(cloud.hosts, 2))
        check_states(cloud, pairs, sets)
        with monkeypatch.context() as patch:
            patch.setattr(report, "MAX_FAILURE_SETS", 0)
            bound = app.post_json(FAILOVER_CAPACITY_PATH, {"host_failures": 2}).json
        covered = set(cloud.hosts) - {failure["name"] for failure in bound["failures"]}
        assert not any(count_stuck(cloud, pair) for pair in sets if covered & set(pair))
    assert min(statements["remaining"], statements["at_most"]) > 0
