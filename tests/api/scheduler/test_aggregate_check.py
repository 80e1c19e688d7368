# SPDX-License-Identifier: Apache-2.0
"""The check of reserved aggregates over HTTP."""

import pytest

from tests.support.clouds import uuid_of
from tests.support.host_maps import LICENSED_TRAIT, add_aggregate
from tests.support.hosts import add_flavor, add_node

AGGREGATE_CHECK_PATH = "/scheduler/v1/aggregate_check"


@pytest.fixture
def database_with_reserved_host(sqlite_database):
    """A reserved host that is not in placement yet, and a flavor for it."""
    add_node(sqlite_database, "win1")
    add_aggregate(sqlite_database, "windows", ["win1"], {f"trait:{LICENSED_TRAIT}": "required"})
    for name, required in (("m1.windows", [LICENSED_TRAIT]), ("m1.small", [])):
        add_flavor(sqlite_database, name, *required)


def test_aggregate_check_has_no_findings_without_reserved_aggregates(sqlite_app):
    empty = {"filtering": False, "aggregates": [], "findings": []}
    assert sqlite_app.get(AGGREGATE_CHECK_PATH).json == empty


def test_aggregate_check_returns_users_of_reserved_aggregates_and_findings(
    database_with_reserved_host, sqlite_settings, make_app
):
    switched_on = {"scheduler.enable_isolated_aggregate_filtering": True}
    document = make_app(sqlite_settings.with_overrides(switched_on)).get(AGGREGATE_CHECK_PATH).json
    assert document["filtering"] is True
    assert document["aggregates"] == [
        {
            "uuid": uuid_of("windows"),
            "name": "windows",
            "traits": [LICENSED_TRAIT],
            "flavors": {"open": ["m1.windows"], "forbidden": ["m1.small"]},
            "images": {"open": [], "forbidden": []},
        }
    ]
    kinds = [finding["kind"] for finding in document["findings"]]
    assert kinds == ["trait_unknown", "not_in_placement", "trait_lacking"]
    assert document["findings"][1] == {
        "kind": "not_in_placement",
        "detail": "is in the host aggregate but not in the provider aggregate. "
        "sync_aggregates adds it",
        "aggregate": "windows",
        "trait": None,
        "names": ["win1"],
    }
