# SPDX-License-Identifier: Apache-2.0
"""Random PCI pools of hosts, and requests for their devices."""

from dataclasses import asdict, dataclass
from typing import Any

from tests.differential.generate.dice import Dice

PROVIDERS = tuple(f"b0000000-0000-4000-8000-00000000000{n}" for n in range(4))
REQUESTS = tuple(f"f0000000-0000-4000-8000-00000000000{n}" for n in range(3))
#: Ids that nova never creates, but callers may: None, and an id that begins with another.
_ODD_REQUESTS = (None, "r", "r1")
_BOOLEANS = ("true", "false", "True", "1", "no", "x")
#: Tags of pools, and values in specs of requests.
_TAGS = {
    "dev_type": ("type-PCI", "type-VF", "type-VF", "type-PF", "vdpa", "odd"),
    "physical_network": ("net1", "net2", "NET1"),
    "parent_ifname": ("eth0", "eth1"),
    "address": ("0000:81:00.0", "0000:82:00.0"),
    "remote_managed": _BOOLEANS,
    "live_migratable": _BOOLEANS,
    "trusted": ("true", "false"),
    "capability_type": ("pci", "PCI"),
    "resource_class": ("CUSTOM_A", "CUSTOM_B"),
    "traits": ("CUSTOM_FAST", ""),
}
_IDS = {"vendor_id": ("8086", "15b3", "10DE", "10de"), "product_id": ("1", "1", "1", "2")}
_POLICIES = (None, "legacy", "required", "preferred", "socket")


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


def random_case(dice: Dice) -> PciCase:
    placed = dice.chance(0.5)
    nodes = dice.choice([1, 2, 4])
    # With fewer tags, a request matches several pools more often. With providers, placement
    # chooses the pool, so most pools should match.
    keys = dice.sample(sorted(_TAGS), 0, dice.choice([0, 0, 1, 2] if placed else [0, 1, 2, 4]))
    picky = 0.1 if placed else 0.4
    pools = [
        _random_pool(dice, keys, nodes, number if placed else None)
        for number in range(dice.choice([1, 2, 3, 4] if placed else [0, 1, 2, 3, 4, 6]))
    ]
    ids = REQUESTS if dice.chance(0.95) else _ODD_REQUESTS
    requests = [
        _random_pci_request(dice, keys, picky, request_id)
        for request_id in ids[: dice.choice([0, 1, 1, 1, 2, 3])]
    ]
    providers = sorted({pool["rp_uuid"] for pool in pools if "rp_uuid" in pool})
    if dice.chance(0.1):
        providers = list(PROVIDERS)
    candidates = [
        _random_mappings(dice, requests, providers) for _ in range(dice.choice([0, 1, 2, 2, 3]))
    ]
    return PciCase(
        pools=pools,
        sockets=_random_sockets(dice, nodes),
        requests=requests,
        mappings=dice.choice(candidates) if candidates and dice.chance(0.8) else None,
        numa_cells=dice.choice([None, None, [], *(dice.sample(range(nodes), 1) for _ in range(3))]),
        candidates=candidates,
    )


def _random_pool(dice: Dice, keys: list[str], nodes: int, number: int | None) -> dict[str, Any]:
    pool: dict[str, Any] = {key: dice.choice(values) for key, values in _IDS.items()}
    pool["numa_node"] = dice.choice([None, *range(nodes), *range(nodes)])
    pool["count"] = dice.choice([0, 1, 1, 2, 2, 3, 4, 8])
    for key in keys:
        if dice.chance(0.8):
            pool[key] = dice.choice(_TAGS[key]) if dice.chance(0.95) else None
    if number is not None and dice.chance(0.9):
        # Sometimes two pools have the same provider, which is invalid.
        pool["rp_uuid"] = PROVIDERS[number % 4 if dice.chance(0.97) else 0]
    return pool


def _random_pci_request(
    dice: Dice, keys: list[str], picky: float, request_id: str | None
) -> dict[str, Any]:
    port = dice.chance(0.15)
    specs = dice.choice([1, 1, 1, 1, 2]) if dice.chance(0.98) else 0
    return {
        "count": dice.choice([0, 1, 1, 1, 1, 1, 2, 2, 3, 5]),
        "spec": [_random_spec(dice, keys, picky) for _ in range(specs)],
        "alias_name": None if port else "alias",
        "request_id": request_id,
        "requester_id": "port" if port else None,
        "numa_policy": dice.choice(_POLICIES),
    }


def _random_spec(dice: Dice, keys: list[str], picky: float) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for key, values in _IDS.items():
        if dice.chance(picky):
            spec[key] = dice.choice(values)
    for key in keys:
        if dice.chance(picky):
            spec[key] = dice.choice(_TAGS[key]) if dice.chance(0.95) else None
    if dice.chance(0.05):
        spec["rp_uuids"] = ",".join(dice.sample(PROVIDERS, 1, 2))
    if dice.chance(0.03):
        key, value = dice.choice([("numa_node", "0"), ("count", "1"), ("rp_uuid", "x"), ("a", "b")])
        spec[key] = value
    return spec


def _random_mappings(
    dice: Dice, requests: list[dict[str, Any]], providers: list[str]
) -> dict[str, list[str]]:
    mappings = {"": [PROVIDERS[0]]} if dice.chance(0.8) else {}
    if dice.chance(0.2):
        mappings["port-7"] = [dice.choice(PROVIDERS)]
    for request in requests if providers else ():
        spread = providers if dice.chance(0.5) else [dice.choice(providers)]
        for number in range(request["count"]):
            if request["alias_name"] and dice.chance(0.97):
                mappings[f"{request['request_id']}-{number}"] = [dice.choice(spread)]
    return mappings


def _random_sockets(dice: Dice, nodes: int) -> list[tuple[int, int | None]] | None:
    kind = dice.choice(["one", "each", "pairs", "odd", "none"])
    if kind == "none":
        return None
    socket_of = {
        "one": lambda _: 0,
        "each": lambda node: node,
        "pairs": lambda node: node // 2,
        "odd": lambda _: dice.choice([None, 0, 1]),
    }[kind]
    return [(node, socket_of(node)) for node in range(nodes)]
