# SPDX-License-Identifier: Apache-2.0
"""The costliest candidates queries for a tree of many providers, and the tree.

A host has 60 network cards (physical functions). Eight cards have virtual functions.
"""

from collections.abc import Iterator, Mapping

from tests.support.clouds import uuid_of

#: Cards of the host, and cards with virtual functions.
CARDS, SHARED = 60, 8
_ROOT = uuid_of("nested host")


def requests_that_create_the_tree() -> Iterator[tuple[str, str, object]]:
    """Yield method, path and body of the requests that create the tree, in order."""
    path = "/placement/resource_providers"
    yield "POST", path, {"name": "nested host", "uuid": _ROOT}
    for number in range(CARDS):
        uuid = uuid_of(f"card {number}")
        made = {"name": f"card {number}", "uuid": uuid, "parent_provider_uuid": _ROOT}
        yield "POST", path, made
        amounts = {"PCI_DEVICE": {"total": 1}}
        if number < SHARED:
            amounts["SRIOV_NET_VF"] = {"total": SHARED}
        stock = {"resource_provider_generation": 0, "inventories": amounts}
        yield "PUT", f"{path}/{uuid}/inventories", stock


def tree_queries() -> Mapping[str, str]:
    """Return queries by name that have very many candidates or none."""
    functions = _join_groups(SHARED, "SRIOV_NET_VF:1")
    more = _join_groups(SHARED, f"SRIOV_NET_VF:{SHARED // 2 + 1}")
    cards = _join_groups(6, "PCI_DEVICE:1")
    too_many = _join_groups(SHARED + 1, "SRIOV_NET_VF:1")
    every = ",".join(f"_{number}" for number in range(SHARED))
    pairs = "&".join(f"same_subtree=_{n},_{n + 1}" for n in range(0, SHARED, 2))
    return {
        "functions": f"{functions}&group_policy=none",
        "functions of one card": f"{functions}&same_subtree={every}&group_policy=none",
        "functions of one card by twos": f"{functions}&{pairs}&group_policy=none",
        "functions apart": f"{functions}&group_policy=isolate",
        "functions of one card that has too few": f"{more}&same_subtree={every}&group_policy=none",
        "cards apart": f"{cards}&group_policy=isolate",
        "cards apart on one card": f"{cards}&same_subtree=_0,_1,_2,_3,_4,_5&group_policy=isolate",
        "too many functions apart": f"{too_many}&group_policy=isolate",
    }


def _join_groups(number: int, resources: str) -> str:
    return "&".join(f"resources_{each}={resources}" for each in range(number))
