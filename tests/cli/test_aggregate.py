# SPDX-License-Identifier: Apache-2.0
"""``aggregate check``: output and exit status."""

import json
from functools import partial

import pytest

from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    sync_own_aggregates,
    sync_own_traits,
)
from tests.support.hosts import add_flavor, add_node

pytestmark = pytest.mark.slow


@pytest.fixture
def check_aggregates(run_cli):
    return partial(run_cli, "aggregate", "check")


@pytest.fixture
def cloud(sqlite_database, monkeypatch):
    """A reserved host without the trait in placement, and a flavor for it."""
    monkeypatch.setenv("OS_SCHEDULER__ENABLE_FORBIDDEN_AGGREGATES_FILTER", "true")
    add_node(sqlite_database, "win1")
    add_aggregate(
        sqlite_database,
        "windows",
        ["win1"],
        {f"trait:{LICENSED_TRAIT}": "required", "trait:X": "no"},
    )
    for name, required in (("m1.windows", [LICENSED_TRAIT]), ("m1.small", [])):
        add_flavor(sqlite_database, name, *required)
    return sqlite_database


def test_aggregate_check_prints_allowed_flavors_and_findings(cloud, check_aggregates):
    status, printed, _ = check_aggregates()
    lines = printed.splitlines()
    assert status == 1
    assert lines[:4] == [
        f"windows is reserved by {LICENSED_TRAIT}",
        "    flavors: open to 1 (m1.windows); forbidden to 1 (m1.small)",
        "    images: open to none; forbidden to none",
        "value_ignored: windows: trait:X=no has no effect: only the value 'required' is used",
    ]
    kinds = ["trait_unknown", "not_in_placement", "trait_lacking", "4 findings"]
    assert [line.partition(":")[0] for line in lines[4:]] == kinds
    assert "windows: win1 is in the host aggregate but not" in lines[5]
    assert f"windows: win1 lacks trait {LICENSED_TRAIT}" in lines[6]


def test_aggregate_check_with_disabled_filter_prints_its_effect(
    cloud, check_aggregates, monkeypatch
):
    monkeypatch.setenv("OS_SCHEDULER__ENABLE_FORBIDDEN_AGGREGATES_FILTER", "false")
    status, printed, _ = check_aggregates()
    lines = printed.splitlines()
    assert status == 1
    assert lines[:3] == [
        f"windows would be, with the filter on, reserved by {LICENSED_TRAIT}",
        "    flavors: would be open to 1 (m1.windows); forbidden to 1 (m1.small)",
        "    images: would be open to none; forbidden to none",
    ]
    assert lines[3].startswith("filter_off: ")
    assert json.loads(check_aggregates("--format", "json")[1])["filtering"] is False


def test_aggregate_check_prints_json(cloud, check_aggregates):
    status, printed, _ = check_aggregates("--format", "json")
    document = json.loads(printed)
    assert (status, document["code"], document["filtering"]) == (1, 1, True)
    assert document["aggregates"] == [
        {
            "uuid": uuid_of("windows"),
            "name": "windows",
            "traits": [LICENSED_TRAIT],
            "flavors": {"open": ["m1.windows"], "forbidden": ["m1.small"]},
            "images": {"open": [], "forbidden": []},
        }
    ]
    assert [finding["kind"] for finding in document["findings"]] == [
        "value_ignored",
        "trait_unknown",
        "not_in_placement",
        "trait_lacking",
    ]
    assert document["findings"][3] == {
        "kind": "trait_lacking",
        "detail": document["findings"][3]["detail"],
        "aggregate": "windows",
        "trait": LICENSED_TRAIT,
        "names": ["win1"],
    }


def test_aggregate_check_without_findings_exits_with_0(sqlite_database, check_aggregates):
    sync_own_aggregates(sqlite_database)
    sync_own_traits(sqlite_database)
    assert check_aggregates() == (0, "no host aggregate is reserved by traits\nno findings\n", "")
