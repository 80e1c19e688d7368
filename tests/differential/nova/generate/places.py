# SPDX-License-Identifier: Apache-2.0
"""Random destinations, zones, hints, and request groups of ports."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.cloud import AGGREGATES, NODES, SERVER_GROUP
from tests.differential.nova.generate.draft import TRAITS, ZONES, RequestDraft

_OTHER_INSTANCE = "5b5b5b5b-0000-4000-8000-000000000002"
_CELL = "8c8c8c8c-0000-4000-8000-000000000001"
_PORTS = ("9a9a9a9a-0000-4000-8000-000000000001", "port_2", "9a9a9a9a-0000-4000-8000-000000000003")


def add_zone(dice: Dice, draft: RequestDraft) -> None:
    draft.spec["availability_zone"] = dice.choice(ZONES)


def add_unknown_zone(dice: Dice, draft: RequestDraft) -> None:
    draft.spec["availability_zone"] = dice.choice(["nowhere", "nova"])


def add_destination(dice: Dice, draft: RequestDraft) -> None:
    node = dice.choice(NODES)
    destination = draft.spec.setdefault("requested_destination", {})
    kind = dice.integer(0, 4)
    if dice.chance(0.1):
        destination["cell"] = _CELL
    if kind < 2:
        destination["aggregates"] = [
            ",".join(dice.sample(AGGREGATES, 1, 2)) for _ in range(kind + 1)
        ]
    if kind in (1, 2):
        destination["forbidden_aggregates"] = dice.sample(AGGREGATES, 1, 2)
    if kind in (2, 3):
        destination["host"] = node.host
    if kind == 3 and dice.chance(0.7):
        destination["node"] = node.node
    if kind == 4:
        destination |= {"node": node.node, "host": node.host if dice.chance(0.9) else "nobody"}


def add_forced_host(dice: Dice, draft: RequestDraft) -> None:
    node = dice.choice(NODES)
    if dice.chance(0.7):
        draft.spec["force_hosts"] = [node.host if dice.chance(0.9) else "nobody"]
    if dice.chance(0.3):
        draft.spec["force_nodes"] = [node.node]


def add_hints(dice: Dice, draft: RequestDraft) -> None:
    key = dice.choice(["group", "same_host", "different_host", "build_near_host_ip", "mine"])
    named = SERVER_GROUP if key == "group" else _OTHER_INSTANCE
    draft.spec["scheduler_hints"] = {key: dice.choice([named, [named]])}


def add_root_traits(dice: Dice, draft: RequestDraft) -> None:
    params = draft.spec.setdefault("request_level_params", {})
    if dice.chance(0.6):
        params["root_required"] = dice.sample((*TRAITS, "OWNER_NOVA"), 1, 2)
    if dice.chance(0.4):
        params["root_forbidden"] = dice.sample(TRAITS, 1, 2)


def add_ports(dice: Dice, draft: RequestDraft) -> None:
    chosen = dice.sample(_PORTS, 1, 2)
    draft.spec["requested_resources"] = [_random_port(dice, name) for name in chosen]
    if dice.chance(0.05):
        draft.spec["requested_resources"].append(
            dice.choice([{"requester_id": "empty"}, {"resources": {"VCPU": 1}}])
        )
    if dice.chance(0.05):
        draft.extra_specs["resourcesport_2:CUSTOM_GOLD"] = "1"
    if len(chosen) > 1 and dice.chance(0.4):
        params = draft.spec.setdefault("request_level_params", {})
        params["same_subtree"] = [chosen]


def _random_port(dice: Dice, name: str) -> dict[str, object]:
    port: dict[str, object] = {"requester_id": name, "use_same_provider": True}
    if dice.chance(0.9):
        amount = dice.choice([100, 1000])
        port["resources"] = {"NET_BW_EGR_KILOBIT_PER_SEC": amount, "NET_BW_IGR_KILOBIT_PER_SEC": 5}
    if dice.chance(0.6):
        port["required_traits"] = dice.sample(("CUSTOM_PHYSNET_1", "HW_NIC_OFFLOAD_TSO"), 1)
    if dice.chance(0.1):
        port["forbidden_traits"] = dice.sample(("CUSTOM_PHYSNET_1", "CUSTOM_BLUE"), 1, 1)
    if dice.chance(0.2):
        port["aggregates"] = [",".join(dice.sample(AGGREGATES, 1, 2))]
    if dice.chance(0.1):
        port["forbidden_aggregates"] = dice.sample(AGGREGATES, 1, 1)
    if dice.chance(0.1):
        port["in_tree"] = dice.choice(NODES).uuid
    return port
