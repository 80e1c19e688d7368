# SPDX-License-Identifier: Apache-2.0
"""Host filter by attestation, with an attestation service over HTTPS."""

from datetime import timedelta

import pytest

from placement_sched.errors import Invalid
from placement_sched.explain.phrases import describe_rejection
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters.trusted_filter import TrustedFilter
from placement_sched.scheduler.live_settings import with_overrides
from tests.clients.attestation import run_attestation_service
from tests.conftest import make_settings
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.states import NOW, build_host_state, build_settings, build_spec

ATTESTATION_TIME = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
TRUST_LEVELS = ("trusted", "untrusted", "unknown")


@pytest.fixture(scope="module")
def running_attestation_service(tmp_path_factory):
    with run_attestation_service(tmp_path_factory.mktemp("attestation")) as fake:
        yield fake


@pytest.fixture
def attestation_service(running_attestation_service):
    """A service with three hosts. The time of the third host is invalid."""
    running_attestation_service.hosts = {
        "good": ("trusted", ATTESTATION_TIME),
        "bad": ("untrusted", ATTESTATION_TIME),
        "odd": ("trusted", "soon"),
    }
    (
        running_attestation_service.failure,
        running_attestation_service.seen,
        running_attestation_service.blobs,
    ) = None, [], []
    return running_attestation_service


def build_trust_options(attestation_service, **changes):
    values = {
        "attestation_server": "127.0.0.1",
        "attestation_port": attestation_service.port,
        "attestation_server_ca_file": attestation_service.ca_file,
        **changes,
    }
    return {f"trusted_computing__{name}": value for name, value in values.items()}


def make_trusted_filter(attestation_service, clock=lambda: NOW, **changes):
    return TrustedFilter.with_settings(
        build_settings(**build_trust_options(attestation_service, **changes)), clock
    )


def build_request_with_trust_level(level):
    return build_spec({"trust:trusted_host": level} if level is not None else {})


def find_passing_hosts(plugin, level, *names):
    hosts = [build_host_state("any", name) for name in names]
    return [
        host.nodename
        for host in run_filters([plugin], hosts, build_request_with_trust_level(level)).hosts
    ]


@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        ("trusted", ["good"]),
        ("untrusted", ["bad"]),
        ("unknown", ["odd", "new"]),
        ("Trusted", []),
        (None, ["good", "bad", "odd", "new"]),
        ("", ["good", "bad", "odd", "new"]),
    ],
)
def test_only_hosts_with_the_requested_trust_level_pass(attestation_service, expected, passes):
    plugin = make_trusted_filter(attestation_service)
    assert find_passing_hosts(plugin, expected, "good", "bad", "odd", "new") == passes
    polled = [{"count": 4, "hosts": ["good", "bad", "odd", "new"]}]
    assert attestation_service.seen == (polled if expected else [])


@pytest.mark.parametrize(
    ("expected", "node", "reason"),
    [
        ("trusted", "bad", f"trusted requested, the host is untrusted since {ATTESTATION_TIME}"),
        ("unknown", "good", f"unknown requested, the host is trusted since {ATTESTATION_TIME}"),
        (
            "trusted",
            "new",
            "trusted requested, the host is unknown: the attestation service does not list it",
        ),
    ],
)
def test_rejection_reason_names_the_requested_and_the_actual_trust_level(
    attestation_service, expected, node, reason
):
    plugin = make_trusted_filter(attestation_service)
    host = build_host_state("any", node)
    rejection = plugin.rejection(host, build_request_with_trust_level(expected))
    assert describe_rejection(rejection) == reason
    assert not plugin.host_passes(host, build_request_with_trust_level(expected))


def test_trust_levels_are_cached_for_the_configured_time(attestation_service):
    now = [NOW]
    plugin = make_trusted_filter(attestation_service, lambda: now[0], attestation_auth_timeout=30)
    assert find_passing_hosts(plugin, "trusted", "good") == ["good"]
    attestation_service.hosts = {
        "good": ("untrusted", f"{NOW + timedelta(seconds=31):%Y-%m-%dT%H:%M:%SZ}")
    }
    for seconds, passes in ((30, ["good"]), (31, []), (61, [])):
        now[0] = NOW + timedelta(seconds=seconds)
        assert find_passing_hosts(plugin, "trusted", "good") == passes, seconds
    assert len(attestation_service.seen) == 2


@pytest.mark.parametrize("level", TRUST_LEVELS)
def test_trust_level_of_every_host_is_unknown_if_the_service_fails(attestation_service, level):
    attestation_service.failure = ("500 Internal Server Error", b"oops")
    plugin = make_trusted_filter(attestation_service)
    names = [f"cn{number}" for number in range(20)]
    assert find_passing_hosts(plugin, level, *names) == (names if level == "unknown" else [])
    assert len(attestation_service.seen) == 1
    if level != "unknown":
        rejection = plugin.rejection(
            build_host_state("any", "cn0"), build_request_with_trust_level(level)
        )
        assert describe_rejection(rejection) == (
            f"{level} requested, the host is unknown: {attestation_service.url} answered "
            "500 Internal Server Error to POST /PollHosts"
        )


def test_trust_level_of_every_host_is_unknown_without_a_server():
    plugin = TrustedFilter.with_settings(build_settings())
    assert find_passing_hosts(plugin, "trusted", "good") == []
    assert find_passing_hosts(plugin, "unknown", "good") == ["good"]
    rejection = plugin.rejection(
        build_host_state("any", "good"), build_request_with_trust_level("trusted")
    )
    assert describe_rejection(rejection) == (
        "trusted requested, the host is unknown: [trusted_computing] attestation_server is not set"
    )


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, ["good"]),
        ({"attestation_server_ca_file": None}, []),
        ({"attestation_server_ca_file": None, "attestation_insecure_ssl": True}, ["good"]),
        ({"attestation_api_url": "OpenAttestationWebServices/V1.0/"}, ["good"]),
        ({"attestation_api_url": "/elsewhere"}, []),
    ],
    ids=str,
)
def test_trusted_host_passes_only_with_valid_url_and_certificate_options(
    attestation_service, changes, passes
):
    values = {
        key: value
        for key, value in build_trust_options(attestation_service, **changes).items()
        if value is not None
    }
    plugin = TrustedFilter.with_settings(build_settings(**values), lambda: NOW)
    assert find_passing_hosts(plugin, "trusted", "good") == passes


def test_configured_auth_blob_is_sent_to_the_attestation_service(attestation_service):
    find_passing_hosts(
        make_trusted_filter(attestation_service, attestation_auth_blob="let-me-in"),
        "trusted",
        "good",
    )
    assert attestation_service.blobs == ["let-me-in"]


@pytest.mark.parametrize("option", ["attestation_server", "attestation_insecure_ssl"])
def test_overrides_of_the_attestation_service_are_rejected(attestation_service, option):
    with pytest.raises(Invalid, match="not read per request"):
        with_overrides(build_settings(), {f"trusted_computing.{option}": "true"})


@pytest.fixture
def cloud(attestation_service, sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        **build_trust_options(attestation_service),
        filter_scheduler__enabled_filters=["ComputeFilter", "TrustedFilter"],
    )
    app = make_app(settings, clock=lambda: NOW)
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("good"), make_report("bad"), make_report("new")]
    )
    return app


def test_scheduling_sends_one_attestation_request_and_reports_the_reasons(
    attestation_service, cloud
):
    request = make_flavor(extra_specs={"trust:trusted_host": "trusted"})
    body = {"request_spec": make_spec(make_uuid(1), make_uuid(2), flavor=request)}
    explained = cloud.post_json("/scheduler/v1/explain", body).json
    (response,) = [
        stage for stage in explained["funnel"]["filters"] if stage["name"] == "TrustedFilter"
    ]
    assert (response["before"], response["after"]) == (3, 1)
    assert {rejection["host"]: rejection["reason"] for rejection in response["rejected"]} == {
        "bad": f"trusted requested, the host is untrusted since {ATTESTATION_TIME}",
        "new": ("trusted requested, the host is unknown: the attestation service does not list it"),
    }
    response = cloud.post_json("/scheduler/v1/select_destinations", body).json
    assert get_selected_hosts(response) == ["good", "good"]
    hosts = [sorted(entry["hosts"]) for entry in attestation_service.seen]
    assert hosts == [["bad", "good", "new"]]
