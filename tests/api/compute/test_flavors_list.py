# SPDX-License-Identifier: Apache-2.0
"""Lists of flavors: filters, order, pages."""

import pytest

from tests.api.compute.client import get_error_message
from tests.support.statements import record_statements


@pytest.fixture
def api_with_flavors(flavor_api):
    for flavorid, ram, disk in (("c", 1024, 10), ("a", 512, 20), ("b", 2048, 0), ("B", 2048, 5)):
        flavor_api.create_flavor(flavorid, ram=ram, disk=disk)
    flavor_api.create_flavor("p", is_public=False, ram=64, disk=1)
    return flavor_api


@pytest.mark.slow
@pytest.mark.all_databases
def test_flavors_are_filtered_by_query_parameters(api_with_flavors):
    for query, ids in [
        ("", "Babc"),
        ("?is_public=true", "Babc"),
        ("?is_public=Yes", "Babc"),
        ("?is_public=false", "p"),
        ("?is_public=0", "p"),
        ("?is_public=off", "p"),
        ("?is_public=none", "Babcp"),
        ("?is_public=None", "Babcp"),
        ("?is_public=true&is_public=false", "p"),
        ("?minRam=1024", "Bbc"),
        ("?minRam=-1", "Babc"),
        ("?minRam=512&minRam=2048", "Bb"),
        (f"?minRam={10**30}", ""),
        ("?minDisk=10", "ac"),
        ("?minDisk=10&minRam=1000", "c"),
        ("?limit=2", "Ba"),
        ("?limit=0", ""),
        ("?limit=5000", "Babc"),
        (f"?limit={10**30}", "Babc"),
        ("?limit=1&limit=2", "Ba"),
        ("?marker=a", "bc"),
        ("?marker=a&limit=1", "b"),
        ("?marker=p", ""),
        ("?sort_key=memory_mb", "acbB"),
        ("?sort_key=memory_mb&sort_dir=desc", "Bbca"),
        ("?sort_key=name&sort_key=memory_mb", "acbB"),
        ("?sort_key=root_gb&marker=B", "ca"),
        ("?sort_dir=desc", "cbaB"),
    ]:
        assert "".join(api_with_flavors.list_flavor_ids(query)) == ids, query
        assert "".join(api_with_flavors.list_flavor_ids(f"/detail{query}")) == ids, query


def test_malformed_flavor_query_is_400_with_the_reason(sqlite_flavor_api):
    sqlite_flavor_api.create_flavor("a")
    for query, words in (
        ("is_public=abc", "Invalid is_public filter [abc]"),
        ("is_public=", "Invalid is_public filter []"),
        ("minRam=1.5", "Invalid minRam filter [1.5]"),
        ("minRam=" + "9" * 5000, "Invalid minRam filter"),
        ("minDisk=", "Invalid minDisk filter []"),
        ("limit=-1", "(at $.limit)"),
        ("limit=", "(at $.limit)"),
        ("limit=abc&limit=1", "(at $.limit)"),
        ("marker=nope", "marker [nope] not found"),
        ("marker=A", "marker [A] not found"),
        ("sort_key=deleted", "(at $.sort_key)"),
        ("sort_dir=DESC", "(at $.sort_dir)"),
    ):
        for path, version in (("", "2.1"), ("/detail", "2.96")):
            url = f"{path}?{query}"
            response = sqlite_flavor_api.request("GET", url, status=400, version=version)
            assert words in get_error_message(response), url


def test_unknown_flavor_query_parameters_are_rejected_from_2_75(sqlite_flavor_api):
    sqlite_flavor_api.request("GET", "?bogus=1", version="2.74")
    sqlite_flavor_api.request("GET", "?bogus=1", version="2.75", status=400)
    sqlite_flavor_api.create_flavor("f")
    sqlite_flavor_api.request("GET", "/f?bogus=1")


@pytest.mark.parametrize("path", ["", "/detail"])
def test_full_page_of_flavors_links_to_the_next_page(api_with_flavors, path):
    seen, query = [], "?limit=2&is_public=None&sort_dir=desc"
    while query:
        page = api_with_flavors.request("GET", f"{path}{query}").json
        seen += [each["id"] for each in page["flavors"]]
        (link,) = page.get("flavors_links", [{}])
        assert link.get("rel", "next") == "next"
        _, _, query = link.get("href", "").partition(path or "flavors")
    assert "".join(seen) == "pcbaB"


def test_page_has_at_most_a_thousand_flavors(sqlite_flavor_api, monkeypatch):
    monkeypatch.setattr("placement_sched.api.paging.MAX_PAGE", 2)
    for flavorid in "abc":
        sqlite_flavor_api.create_flavor(flavorid)
    page = sqlite_flavor_api.request("GET").json
    assert [each["id"] for each in page["flavors"]] == ["a", "b"]
    assert page["flavors_links"][0]["href"].endswith("/compute/v2.1/flavors?marker=b")


def test_extra_specs_are_shown_only_in_the_detailed_flavor_list(api_with_flavors):
    api_with_flavors.add_extra_specs("a", {"k": "v"})
    detailed = api_with_flavors.request("GET", "/detail?marker=B").json["flavors"]
    assert [each["extra_specs"] for each in detailed] == [{"k": "v"}, {}, {}]
    assert "extra_specs" not in api_with_flavors.request("GET").json["flavors"][1]


def test_sql_statement_count_does_not_grow_with_flavors(api_with_flavors, database):
    seen = []
    for number in (1, 12):
        for each in range(number):
            api_with_flavors.create_flavor(f"{number}-{each}")
            api_with_flavors.add_extra_specs(f"{number}-{each}", {"k": "v"})
        with record_statements(
            api_with_flavors.app.app._application.services.database
        ) as statements:
            api_with_flavors.request("GET", "/detail")
        seen.append(len(statements))
    assert seen[0] == seen[1]
