# SPDX-License-Identifier: Apache-2.0
"""``capacity`` with direct access to the database."""

import json
from functools import partial

import pytest

from tests.cli.conftest import copy_filled_database
from tests.support.api_clouds import COMPUTE_HEADERS
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

SIZE_OPTIONS = ("--vcpus", "2", "--ram", "4096", "--disk", "20")


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Two hosts and two flavors."""
    return copy_filled_database(
        sqlite_template, tmp_path_factory.mktemp("cloud"), add_hosts_and_flavors
    )


def add_hosts_and_flavors(app):
    hosts = [make_report("cn1", memory_mb=8192), make_report("cn2", memory_mb=16384)]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    for name in ("small", "tiny"):
        body = {"flavor": {"name": name, "vcpus": 1, "ram": 2048, "disk": 10}}
        app.post_json("/compute/v2.1/flavors", body, headers=COMPUTE_HEADERS)


@pytest.fixture
def run_capacity(run_cli):
    return partial(run_cli, "capacity")


def test_capacity_of_a_flavor_is_printed_with_the_limiting_resource(run_capacity):
    status, printed, _ = run_capacity(*SIZE_OPTIONS, "--per", "host")
    assert status == 0
    lines = printed.splitlines()
    assert lines[0] == "6 more fit"
    assert any(line.split() == ["2", "MEMORY_MB"] for line in lines)
    assert [line.split()[:2] for line in lines if line.startswith("cn")] == [
        ["cn1", "2"],
        ["cn2", "4"],
    ]


def test_capacity_of_several_flavors_is_printed_as_a_table(run_capacity):
    for flags in (("--flavor", "small", "--flavor", "tiny"), ("--all-flavors",)):
        status, printed, _ = run_capacity(*flags)
        assert status == 0
        rows = [line.split()[:2] for line in printed.splitlines()]
        assert ["small", "12"] in rows
        assert ["tiny", "12"] in rows


def test_capacity_takes_a_flavor_as_positional_argument(run_capacity, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_capacity("small", "--per", "host") == run_capacity(
        "--flavor", "small", "--per", "host"
    )
    _, printed, _ = run_capacity("small", "--flavor", "tiny")
    assert [line.split()[0] for line in printed.splitlines()[2:]] == ["small", "tiny"]
    status, _, error = run_capacity("smal")
    assert (status, "Did you mean 'small'?" in error) == (1, True)


def test_capacity_document_is_printed_as_json(run_capacity):
    _, printed, _ = run_capacity("--flavor", "small", "--format", "json")
    assert json.loads(printed)["capacity"] == 12


def test_capacity_is_counted_after_simulated_changes(run_capacity):
    _, printed, _ = run_capacity("--flavor", "small", "--change", "drain=cn2")
    assert printed.startswith("4 more fit")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--flavor", "smal"), "Did you mean 'small'?"),
        (("--flavor", "small", "--zone", "nov"), "--zone: no aggregate has"),
        (("--flavor", "small", "--all-flavors"), "cannot be given with --all-flavors"),
        (("small", "--all-flavors"), "cannot be given with --all-flavors"),
        (("--flavor", "small", "--count", "3"), "--count"),
        (("--flavor", "small", "--override", "a.b=1"), "a.b"),
    ],
)
def test_invalid_capacity_option_is_reported_by_name(run_capacity, flags, words):
    status, printed, error = run_capacity(*flags)
    assert status != 0
    assert printed == ""
    assert words in error
    assert len(error.splitlines()) == 1
