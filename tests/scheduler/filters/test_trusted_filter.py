# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter against a real attestation service, over HTTPS."""

from datetime import timedelta

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters.trusted_filter import TrustedFilter
from placement_sched.scheduler.live_settings import with_overrides
from tests.conftest import make_settings
from tests.support.attestation import running
from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.states import NOW, a_host, a_spec, settings_with

TIME = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
LEVELS = ("trusted", "untrusted", "unknown")


@pytest.fixture
def service(tmp_path):
    """A service that knows two hosts, and of a third one no sound time."""
    with running(tmp_path) as fake:
        fake.hosts = {
            "good": ("trusted", TIME),
            "bad": ("untrusted", TIME),
            "odd": ("trusted", "soon"),
        }
        yield fake


def options(service, **changes):
    values = {
        "attestation_server": "127.0.0.1",
        "attestation_port": service.port,
        "attestation_server_ca_file": service.ca_file,
        **changes,
    }
    return {f"trusted_computing__{name}": value for name, value in values.items()}


def made(service, clock=lambda: NOW, **changes):
    return TrustedFilter.with_settings(settings_with(**options(service, **changes)), clock)


def asking(level):
    return a_spec({"trust:trusted_host": level} if level is not None else {})


def passing(plugin, wanted, *names):
    hosts = [a_host("any", name) for name in names]
    return [host.nodename for host in run_filters([plugin], hosts, asking(wanted)).hosts]


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ("trusted", ["good"]),
        ("untrusted", ["bad"]),
        ("unknown", ["odd", "new"]),
        ("Trusted", []),
        (None, ["good", "bad", "odd", "new"]),
        ("", ["good", "bad", "odd", "new"]),
    ],
)
def test_hosts_pass_that_are_as_far_trusted_as_is_asked(service, wanted, passes):
    plugin = made(service)
    assert passing(plugin, wanted, "good", "bad", "odd", "new") == passes
    polled = [{"count": 4, "hosts": ["good", "bad", "odd", "new"]}]
    assert service.seen == (polled if wanted else [])


@pytest.mark.parametrize(
    ("wanted", "node", "reason"),
    [
        ("trusted", "bad", f"trusted requested, the host is untrusted since {TIME}"),
        ("unknown", "good", f"unknown requested, the host is trusted since {TIME}"),
        (
            "trusted",
            "new",
            "trusted requested, the host is unknown: the attestation service does not know it",
        ),
    ],
)
def test_refusal_tells_both_levels(service, wanted, node, reason):
    plugin = made(service)
    host = a_host("any", node)
    assert plugin.refusal(host, asking(wanted)).reason == reason
    assert not plugin.host_passes(host, asking(wanted))


def test_what_the_service_says_holds_for_the_time_of_the_option(service):
    now = [NOW]
    plugin = made(service, lambda: now[0], attestation_auth_timeout=30)
    assert passing(plugin, "trusted", "good") == ["good"]
    service.hosts = {"good": ("untrusted", f"{NOW + timedelta(seconds=31):%Y-%m-%dT%H:%M:%SZ}")}
    for seconds, passes in ((30, ["good"]), (31, []), (61, [])):
        now[0] = NOW + timedelta(seconds=seconds)
        assert passing(plugin, "trusted", "good") == passes, seconds
    assert len(service.seen) == 2


@pytest.mark.parametrize("level", LEVELS)
def test_service_that_fails_makes_every_host_unknown_and_is_asked_once(service, level):
    service.failure = ("500 Internal Server Error", b"oops")
    plugin = made(service)
    names = [f"cn{number}" for number in range(20)]
    assert passing(plugin, level, *names) == (names if level == "unknown" else [])
    assert len(service.seen) == 1
    if level != "unknown":
        assert plugin.refusal(a_host("any", "cn0"), asking(level)).reason == (
            f"{level} requested, the host is unknown: {service.url} answered 500 Internal Server "
            "Error to POST /PollHosts"
        )


def test_without_a_server_every_host_is_unknown():
    plugin = TrustedFilter.with_settings(settings_with())
    assert passing(plugin, "trusted", "good") == []
    assert passing(plugin, "unknown", "good") == ["good"]
    assert plugin.refusal(a_host("any", "good"), asking("trusted")).reason == (
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
def test_options_say_where_the_service_is_and_whether_its_certificate_counts(
    service, changes, passes
):
    values = {key: value for key, value in options(service, **changes).items() if value is not None}
    plugin = TrustedFilter.with_settings(settings_with(**values), lambda: NOW)
    assert passing(plugin, "trusted", "good") == passes


def test_blob_is_sent(service):
    passing(made(service, attestation_auth_blob="let-me-in"), "trusted", "good")
    assert service.blobs == ["let-me-in"]


def test_only_the_first_instance_of_a_request_asks():
    plugin = TrustedFilter.with_settings(settings_with())
    assert [plugin.run_filter_for_index(index) for index in (0, 1)] == [True, False]


@pytest.mark.parametrize("option", ["attestation_server", "attestation_insecure_ssl"])
def test_request_cannot_say_where_the_service_is(service, option):
    """It would be sent the blob by which this service is known to it."""
    with pytest.raises(Invalid, match="not read per request"):
        with_overrides(settings_with(), {f"trusted_computing.{option}": "true"})


@pytest.fixture
def cloud(service, sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        **options(service),
        filter_scheduler__enabled_filters=["ComputeFilter", "TrustedFilter"],
    )
    app = make_app(settings, clock=lambda: NOW)
    app.post_json("/scheduler/v1/compute_nodes", [report("good"), report("bad"), report("new")])
    return app


def test_run_asks_once_and_tells_why(service, cloud):
    wanted = flavor(extra_specs={"trust:trusted_host": "trusted"})
    body = {"request_spec": spec(instance(1), instance(2), flavor=wanted)}
    explained = cloud.post_json("/scheduler/v1/explain", body).json
    (told,) = [one for one in explained["funnel"]["filters"] if one["name"] == "TrustedFilter"]
    assert (told["before"], told["after"]) == (3, 1)
    assert {one["host"]: one["reason"] for one in told["rejected"]} == {
        "bad": f"trusted requested, the host is untrusted since {TIME}",
        "new": ("trusted requested, the host is unknown: the attestation service does not know it"),
    }
    answer = cloud.post_json("/scheduler/v1/select_destinations", body).json
    assert hosts_of(answer) == ["good", "good"]
    assert [sorted(one["hosts"]) for one in service.seen] == [["bad", "good", "new"]]


def test_run_while_the_service_is_down_finds_no_host_and_no_fault(service, cloud, caplog):
    service.failure = ("503 Service Unavailable", b"")
    wanted = flavor(extra_specs={"trust:trusted_host": "trusted"})
    body = {"request_spec": spec(instance(1), flavor=wanted)}
    refused = cloud.post_json("/scheduler/v1/select_destinations", body, status=409).json
    (error,) = refused["errors"]
    words = "TrustedFilter rejected all 3 remaining hosts"
    assert error["detail"] == f"No valid host was found: {words}"
    assert len(service.seen) == 1
    assert "Traceback" not in caplog.text
