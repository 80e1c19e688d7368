# SPDX-License-Identifier: Apache-2.0
"""Random destinations, zones, hints, and request groups of ports."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.cloud import AGGREGATES, NODES, SERVER_GROUP_UUID
from tests.differential.nova.generate.draft import TRAITS, ZONE_NAMES, RequestDraft

_OTHER_INSTANCE_UUID = "5b5b5b5b-0000-4000-8000-000000000002"
_CELL_UUID = "8c8c8c8c-0000-4000-8000-000000000001"
_PORT_IDS = (
    "9a9a9a9a-0000-4000-8000-000000000001",
    "port_2",
    "9a9a9a9a-0000-4000-8000-000000000003",
)


def add_zone(rng: RandomSource, draft: RequestDraft) -> None:
    draft.spec["availability_zone"] = rng.choice(ZONE_NAMES)


def add_unknown_zone(rng: RandomSource, draft: RequestDraft) -> None:
    draft.spec["availability_zone"] = rng.choice(["nowhere", "nova"])


def add_destination(rng: RandomSource, draft: RequestDraft) -> None:
    node = rng.choice(NODES)
    destination = draft.spec.setdefault("requested_destination", {})
    kind = rng.integer(0, 4)
    if rng.chance(0.1):
        destination["cell"] = _CELL_UUID
    if kind < 2:
        destination["aggregates"] = [
            ",".join(rng.sample(AGGREGATES, 1, 2)) for _ in range(kind + 1)
        ]
    if kind in (1, 2):
        destination["forbidden_aggregates"] = rng.sample(AGGREGATES, 1, 2)
    if kind in (2, 3):
        destination["host"] = node.host
    if kind == 3 and rng.chance(0.7):
        destination["node"] = node.node
    if kind == 4:
        destination |= {"node": node.node, "host": node.host if rng.chance(0.9) else "nobody"}


def add_forced_host(rng: RandomSource, draft: RequestDraft) -> None:
    node = rng.choice(NODES)
    if rng.chance(0.7):
        draft.spec["force_hosts"] = [node.host if rng.chance(0.9) else "nobody"]
    if rng.chance(0.3):
        draft.spec["force_nodes"] = [node.node]


def add_hints(rng: RandomSource, draft: RequestDraft) -> None:
    key = rng.choice(["group", "same_host", "different_host", "build_near_host_ip", "mine"])
    named = SERVER_GROUP_UUID if key == "group" else _OTHER_INSTANCE_UUID
    draft.spec["scheduler_hints"] = {key: rng.choice([named, [named]])}


def add_root_traits(rng: RandomSource, draft: RequestDraft) -> None:
    params = draft.spec.setdefault("request_level_params", {})
    if rng.chance(0.6):
        params["root_required"] = rng.sample((*TRAITS, "OWNER_NOVA"), 1, 2)
    if rng.chance(0.4):
        params["root_forbidden"] = rng.sample(TRAITS, 1, 2)


def add_ports(rng: RandomSource, draft: RequestDraft) -> None:
    chosen = rng.sample(_PORT_IDS, 1, 2)
    draft.spec["requested_resources"] = [_random_port(rng, name) for name in chosen]
    if rng.chance(0.05):
        draft.spec["requested_resources"].append(
            rng.choice([{"requester_id": "empty"}, {"resources": {"VCPU": 1}}])
        )
    if rng.chance(0.05):
        draft.extra_specs["resourcesport_2:CUSTOM_GOLD"] = "1"
    if len(chosen) > 1 and rng.chance(0.4):
        params = draft.spec.setdefault("request_level_params", {})
        params["same_subtree"] = [chosen]


def _random_port(rng: RandomSource, name: str) -> dict[str, object]:
    port: dict[str, object] = {"requester_id": name, "use_same_provider": True}
    if rng.chance(0.9):
        amount = rng.choice([100, 1000])
        port["resources"] = {"NET_BW_EGR_KILOBIT_PER_SEC": amount, "NET_BW_IGR_KILOBIT_PER_SEC": 5}
    if rng.chance(0.6):
        port["required_traits"] = rng.sample(("CUSTOM_PHYSNET_1", "HW_NIC_OFFLOAD_TSO"), 1)
    if rng.chance(0.1):
        port["forbidden_traits"] = rng.sample(("CUSTOM_PHYSNET_1", "CUSTOM_BLUE"), 1, 1)
    if rng.chance(0.2):
        port["aggregates"] = [",".join(rng.sample(AGGREGATES, 1, 2))]
    if rng.chance(0.1):
        port["forbidden_aggregates"] = rng.sample(AGGREGATES, 1, 1)
    if rng.chance(0.1):
        port["in_tree"] = rng.choice(NODES).uuid
    return port
