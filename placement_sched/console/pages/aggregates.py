"""The page Aggregates: which hosts are where, what reserves them, and what is wrong with that."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flask

from placement_sched.console.page import caller, page
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.document import Json
from placement_sched.model.names import in_short

#: Of the metadata, what has a column of its own.
_ZONE, _TRAIT = "availability_zone", "trait:"
#: What is wrong where host aggregate and provider aggregate differ.
_OUT_OF_STEP = frozenset({"not_in_placement", "stale_in_placement"})


def index() -> flask.Response:
    """Show every host aggregate, and what the check of those reserved by traits says."""
    found = caller().get("/compute/v2.1/os-aggregates")["aggregates"]
    check = caller().get("/scheduler/v1/aggregate_check")
    by_name: dict[str | None, list[Json]] = defaultdict(list)
    for finding in check["findings"]:
        by_name[finding["aggregate"]].append(finding)
    reserved = {one["uuid"]: one for one in check["aggregates"]}
    values = {
        "filtering": check["filtering"],
        "findings": [_said(one) for one in check["findings"]],
        "reserved": list(reserved.values()),
        "aggregates": [
            _row(one, reserved.get(one["uuid"]), by_name[one["name"]])
            for one in sorted(found, key=lambda one: str(one["name"]))
        ],
    }
    return page("aggregates.html", "Aggregates", values)


def _row(aggregate: Json, reserved: Json | None, findings: Sequence[Json]) -> Json:
    """Return what the table shows of an aggregate."""
    metadata: Mapping[str, str] = aggregate["metadata"]
    own = {
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
        "metadata": sorted(own.items()),
        "out_of_step": [_said(one) for one in findings if one["kind"] in _OUT_OF_STEP],
        "wrong": len(findings),
    }


def _said(finding: Json) -> Json:
    """Return a finding with its words as the command line has them."""
    about = f"{in_short(finding['names'])} " if finding["names"] else ""
    return {**finding, "words": f"{about}{finding['detail']}"}


VIEWS: Mapping[str, Callable[..., Any]] = {"/aggregates": index}
