# SPDX-License-Identifier: Apache-2.0
"""Random PCI pools of hosts, and requests for their devices."""

from dataclasses import asdict, dataclass
from typing import Any

from tests.differential.generate.random_values import RandomSource

PROVIDER_UUIDS = tuple(f"b0000000-0000-4000-8000-00000000000{n}" for n in range(4))
REQUEST_UUIDS = tuple(f"f0000000-0000-4000-8000-00000000000{n}" for n in range(3))
#: Ids that nova never creates, but callers may: None, and an id that begins with another.
_UNUSUAL_REQUEST_IDS = (None, "r", "r1")
_BOOLEAN_VALUES = ("true", "false", "True", "1", "no", "x")
#: Tags of pools, and values in specs of requests.
_TAG_VALUES = {
    "dev_type": ("type-PCI", "type-VF", "type-VF", "type-PF", "vdpa", "odd"),
    "physical_network": ("net1", "net2", "NET1"),
    "parent_ifname": ("eth0", "eth1"),
    "address": ("0000:81:00.0", "0000:82:00.0"),
    "remote_managed": _BOOLEAN_VALUES,
    "live_migratable": _BOOLEAN_VALUES,
    "trusted": ("true", "false"),
    "capability_type": ("pci", "PCI"),
    "resource_class": ("CUSTOM_A", "CUSTOM_B"),
    "traits": ("CUSTOM_FAST", ""),
}
_DEVICE_ID_VALUES = {
    "vendor_id": ("8086", "15b3", "10DE", "10de"),
    "product_id": ("1", "1", "1", "2"),
}
_NUMA_POLICIES = (None, "legacy", "required", "preferred", "socket")


@dataclass(frozen=True)
class PciCase:
    """A host and a request.

    ``sockets`` has pairs of NUMA node and socket, and ``numa_cells`` the nodes of the instance. The
    pools get ``mappings``. The filter gets the mappings in ``candidates``.
    """

    pools: list[dict[str, Any]]
    sockets: list[tuple[int, int | None]] | None
    requests: list[dict[str, Any]]
    mappings: dict[str, list[str]] | None
    numa_cells: list[int] | None
    candidates: list[dict[str, list[str]]]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def random_case(rng: RandomSource) -> PciCase:
    placed = rng.chance(0.5)
    nodes = rng.choice([1, 2, 4])
    # With fewer tags, a request matches several pools more often. With providers, placement
    # chooses the pool, so most pools should match.
    keys = rng.sample(sorted(_TAG_VALUES), 0, rng.choice([0, 0, 1, 2] if placed else [0, 1, 2, 4]))
    picky = 0.1 if placed else 0.4
    pools = [
        _random_pool(rng, keys, nodes, number if placed else None)
        for number in range(rng.choice([1, 2, 3, 4] if placed else [0, 1, 2, 3, 4, 6]))
    ]
    ids = REQUEST_UUIDS if rng.chance(0.95) else _UNUSUAL_REQUEST_IDS
    requests = [
        _random_pci_request(rng, keys, picky, request_id)
        for request_id in ids[: rng.choice([0, 1, 1, 1, 2, 3])]
    ]
    providers = sorted({pool["rp_uuid"] for pool in pools if "rp_uuid" in pool})
    if rng.chance(0.1):
        providers = list(PROVIDER_UUIDS)
    candidates = [
        _random_mappings(rng, requests, providers) for _ in range(rng.choice([0, 1, 2, 2, 3]))
    ]
    return PciCase(
        pools=pools,
        sockets=_random_sockets(rng, nodes),
        requests=requests,
        mappings=rng.choice(candidates) if candidates and rng.chance(0.8) else None,
        numa_cells=rng.choice([None, None, [], *(rng.sample(range(nodes), 1) for _ in range(3))]),
        candidates=candidates,
    )


def _random_pool(
    rng: RandomSource, keys: list[str], nodes: int, number: int | None
) -> dict[str, Any]:
    pool: dict[str, Any] = {key: rng.choice(values) for key, values in _DEVICE_ID_VALUES.items()}
    pool["numa_node"] = rng.choice([None, *range(nodes), *range(nodes)])
    pool["count"] = rng.choice([0, 1, 1, 2, 2, 3, 4, 8])
    for key in keys:
        if rng.chance(0.8):
            pool[key] = rng.choice(_TAG_VALUES[key]) if rng.chance(0.95) else None
    if number is not None and rng.chance(0.9):
        # Sometimes two pools have the same provider, which is invalid.
        pool["rp_uuid"] = PROVIDER_UUIDS[number % 4 if rng.chance(0.97) else 0]
    return pool


def _random_pci_request(
    rng: RandomSource, keys: list[str], picky: float, request_id: str | None
) -> dict[str, Any]:
    port = rng.chance(0.15)
    specs = rng.choice([1, 1, 1, 1, 2]) if rng.chance(0.98) else 0
    return {
        "count": rng.choice([0, 1, 1, 1, 1, 1, 2, 2, 3, 5]),
        "spec": [_random_spec(rng, keys, picky) for _ in range(specs)],
        "alias_name": None if port else "alias",
        "request_id": request_id,
        "requester_id": "port" if port else None,
        "numa_policy": rng.choice(_NUMA_POLICIES),
    }


def _random_spec(rng: RandomSource, keys: list[str], picky: float) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for key, values in _DEVICE_ID_VALUES.items():
        if rng.chance(picky):
            spec[key] = rng.choice(values)
    for key in keys:
        if rng.chance(picky):
            spec[key] = rng.choice(_TAG_VALUES[key]) if rng.chance(0.95) else None
    if rng.chance(0.05):
        spec["rp_uuids"] = ",".join(rng.sample(PROVIDER_UUIDS, 1, 2))
    if rng.chance(0.03):
        key, value = rng.choice([("numa_node", "0"), ("count", "1"), ("rp_uuid", "x"), ("a", "b")])
        spec[key] = value
    return spec


def _random_mappings(
    rng: RandomSource, requests: list[dict[str, Any]], providers: list[str]
) -> dict[str, list[str]]:
    mappings = {"": [PROVIDER_UUIDS[0]]} if rng.chance(0.8) else {}
    if rng.chance(0.2):
        mappings["port-7"] = [rng.choice(PROVIDER_UUIDS)]
    for request in requests if providers else ():
        spread = providers if rng.chance(0.5) else [rng.choice(providers)]
        for number in range(request["count"]):
            if request["alias_name"] and rng.chance(0.97):
                mappings[f"{request['request_id']}-{number}"] = [rng.choice(spread)]
    return mappings


def _random_sockets(rng: RandomSource, nodes: int) -> list[tuple[int, int | None]] | None:
    kind = rng.choice(["one", "each", "pairs", "odd", "none"])
    if kind == "none":
        return None
    socket_of = {
        "one": lambda _: 0,
        "each": lambda node: node,
        "pairs": lambda node: node // 2,
        "odd": lambda _: rng.choice([None, 0, 1]),
    }[kind]
    return [(node, socket_of(node)) for node in range(nodes)]
