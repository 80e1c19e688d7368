# SPDX-License-Identifier: Apache-2.0
"""Aggregates page: host aggregates, reserved hosts and findings of the check."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import flask

from placement_sched.console.page import api_client, build_share, csv_file, page
from placement_sched.console.pages.cloud import build_use, choose_classes
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.document import Json
from placement_sched.model.names import shorten_names

_CHECK, _OVERVIEW = "/scheduler/v1/aggregate_check", "/scheduler/v1/overview"
#: Maximum number of resource classes with a column.
_MAX_CLASSES = 4
#: Maximum number of hosts that are listed. If there are more, each aggregate leads to the map.
_MAX_LISTED = 2000
#: Metadata keys with a column of their own.
_ZONE, _TRAIT = "availability_zone", "trait:"
#: Commands by the kind of finding that they fix.
_COMMANDS = {
    "trait_unknown": "placement-sched placement sync_traits",
    "trait_lacking": "placement-sched placement sync_traits",
    "not_in_placement": "placement-sched placement sync_aggregates",
    "stale_in_placement": "placement-sched placement sync_aggregates --remove-stale",
}
#: Findings for differences between host aggregates and provider aggregates.
_OUT_OF_STEP = frozenset({"not_in_placement", "stale_in_placement"})


def index() -> flask.Response:
    """Show the host aggregates and the result of the check of reserved aggregates."""
    aggregates = api_client().get("/compute/v2.1/os-aggregates")["aggregates"]
    check = api_client().get(_CHECK)
    sums = {part["uuid"]: part for part in api_client().get(_OVERVIEW)["aggregates"]}
    classes = choose_classes(list(sums.values()), _MAX_CLASSES)
    by_name: dict[str | None, list[Json]] = defaultdict(list)
    for finding in check["findings"]:
        by_name[finding["aggregate"]].append(finding)
    reserved = {item["uuid"]: item for item in check["aggregates"]}
    values = {
        "filtering": check["filtering"],
        "findings": [with_words(finding) for finding in check["findings"]],
        "reserved": list(reserved.values()),
        "classes": classes,
        "lists_hosts": sum(len(item["hosts"]) for item in aggregates) <= _MAX_LISTED,
        "aggregates": [
            _build_row(item, reserved.get(item["uuid"]), by_name[item["name"]])
            | {
                "uses": [
                    build_use(sums.get(item["uuid"], {"resources": {}}), name) for name in classes
                ]
            }
            for item in sorted(aggregates, key=lambda item: str(item["name"]))
        ],
    }
    share = build_share(_CHECK, csv="/aggregates.csv")
    # The command reads the configured database and has no address of a server.
    values["share"] = replace(share, command="placement-sched aggregate check")
    return page("aggregates.html", "Aggregates", values)


def table() -> flask.Response:
    """Send the host aggregates, with used amounts and capacity of their hosts, as CSV."""
    aggregates = api_client().get("/compute/v2.1/os-aggregates")["aggregates"]
    sums = {part["uuid"]: part["resources"] for part in api_client().get(_OVERVIEW)["aggregates"]}
    classes = sorted({name for resources in sums.values() for name in resources})
    amounts = [(name, kind) for name in classes for kind in ("used", "capacity")]
    rows = (
        [
            item["name"],
            item["uuid"],
            " ".join(f"{key}={value}" for key, value in sorted(item["metadata"].items())),
            " ".join(item["hosts"]),
            *(sums.get(item["uuid"], {}).get(name, {}).get(kind) for name, kind in amounts),
        ]
        for item in aggregates
    )
    titles = ["name", "uuid", "metadata", "hosts", *map(" ".join, amounts)]
    return csv_file("aggregates.csv", titles, rows)


def _build_row(aggregate: Json, reserved: Json | None, findings: Sequence[Json]) -> Json:
    metadata: Mapping[str, str] = aggregate["metadata"]
    remaining = {
        key: value
        for key, value in metadata.items()
        if key not in {_ZONE, POLICY_KEY} and (not key.startswith(_TRAIT) or value != "required")
    }
    return {
        "name": aggregate["name"],
        "uuid": aggregate["uuid"],
        "hosts": aggregate["hosts"],
        "zone": metadata.get(_ZONE) or aggregate.get("availability_zone"),
        "policy": metadata.get(POLICY_KEY),
        "traits": reserved["traits"] if reserved else (),
        "metadata": sorted(remaining.items()),
        "out_of_step": [
            with_words(finding) for finding in findings if finding["kind"] in _OUT_OF_STEP
        ],
    }


def with_words(finding: Json) -> Json:
    """Add the command line's sentence and the command that fixes it to a finding."""
    names = f"{shorten_names(finding['names'])} " if finding["names"] else ""
    command = _COMMANDS.get(finding["kind"])
    return {**finding, "words": f"{names}{finding['detail']}", "command": command}


VIEWS: Mapping[str, Callable[..., Any]] = {"/aggregates": index, "/aggregates.csv": table}
