# SPDX-License-Identifier: Apache-2.0
"""Trust levels of an attestation service, and their cache."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
import trustme

from placement_sched.clients.attestation import Attestation, AttestedHosts, Level
from placement_sched.errors import ServiceFailed
from tests.clients.attestation import run_attestation_service

TRUST_TIME_TEXT = "2026-01-01T12:00:00Z"
TRUST_TIME = datetime(2026, 1, 1, 12)


@pytest.fixture
def attestation_service(tmp_path):
    with run_attestation_service(tmp_path) as service:
        service.hosts = {"cn1": ("trusted", TRUST_TIME_TEXT), "cn2": ("untrusted", TRUST_TIME_TEXT)}
        yield service


@pytest.fixture
def attestation_client(attestation_service):
    return Attestation(attestation_service.url, cacert=attestation_service.ca_file)


def poll_and_get_failure_detail(attestation_client) -> str:
    with pytest.raises(ServiceFailed) as failure:
        attestation_client.poll(["cn1"])
    assert failure.value.service == "attestation"
    assert "\n" not in failure.value.detail
    return failure.value.detail


def test_attestation_of_all_hosts_is_polled_in_one_request(attestation_service, attestation_client):
    assert attestation_client.poll(["cn1", "cn2", "cn3"]) == {
        "cn1": Level("trusted", TRUST_TIME),
        "cn2": Level("untrusted", TRUST_TIME),
    }
    assert attestation_service.seen == [{"count": 3, "hosts": ["cn1", "cn2", "cn3"]}]
    assert attestation_service.blobs == [None]


def test_attestation_request_contains_the_configured_auth_blob(attestation_service):
    Attestation(attestation_service.url, cacert=attestation_service.ca_file, blob="let-me-in").poll(
        ["cn1"]
    )
    assert attestation_service.blobs == ["let-me-in"]


def test_attestation_times_of_both_formats_are_parsed(attestation_service, attestation_client):
    for level, times in (
        (
            Level("trusted", TRUST_TIME),
            (
                *("2026-01-01T12:00:00Z", "2026-01-01T12:00:00", "2026-01-01T12:00:00.000+00:00"),
                *("2026-01-01T14:30:00+02:30", "Thu Jan  1 12:00:00 2026"),
            ),
        ),
        (Level("unknown", None), ("yesterday", "", None, 1767268800)),
    ):
        for vtime in times:
            attestation_service.hosts = {"cn1": ("trusted", vtime)}
            assert attestation_client.poll(["cn1"]) == {"cn1": level}, vtime


def test_attestation_certificate_of_another_ca_is_rejected(attestation_service, tmp_path):
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    for cacert in (str(other), None):
        detail = poll_and_get_failure_detail(Attestation(attestation_service.url, cacert=cacert))
        assert detail.startswith(f"{attestation_service.url} does not answer: ")
        assert "certificate" in detail
    assert attestation_service.seen == []


def test_attestation_certificate_for_another_name_is_rejected(tmp_path):
    with run_attestation_service(tmp_path, "attestation.example.org") as service:
        detail = poll_and_get_failure_detail(Attestation(service.url, cacert=service.ca_file))
    assert "certificate" in detail
    assert service.seen == []


def test_insecure_option_accepts_a_certificate_with_a_warning(attestation_service, caplog):
    level = Attestation(attestation_service.url, insecure=True).poll(["cn1"])["cn1"]
    assert level.trust == "trusted"
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the certificate of {attestation_service.url} is not verified: "
        "any server may impersonate it"
    )


def test_missing_ca_file_is_named_in_the_attestation_failure(attestation_service):
    detail = poll_and_get_failure_detail(
        Attestation(attestation_service.url, cacert="/no/such/file")
    )
    assert "/no/such/file" in detail


def test_unavailable_attestation_service_is_reported(attestation_service):
    url = "https://127.0.0.1:1"  # port 1 is never assigned as a free port
    detail = poll_and_get_failure_detail(Attestation(url, cacert=attestation_service.ca_file))
    assert detail == f"{url} does not answer: Connection refused"


def test_request_to_a_slow_attestation_service_times_out(attestation_service):
    attestation_service.awake.clear()
    detail = poll_and_get_failure_detail(
        Attestation(attestation_service.url, cacert=attestation_service.ca_file, timeout=0.2)
    )
    assert "timed out" in detail
    assert len(attestation_service.seen) <= 1


def test_http_url_of_a_tls_attestation_service_is_reported(attestation_service):
    detail = poll_and_get_failure_detail(
        Attestation(
            attestation_service.url.replace("https:", "http:"), cacert=attestation_service.ca_file
        )
    )
    assert "does not answer" in detail


def test_error_response_of_attestation_is_not_retried(attestation_service, attestation_client):
    for status, body, words in (
        ("401 Unauthorized", {}, "answered 401 Unauthorized to POST /PollHosts"),
        ("404 Not Found", b"nginx", "Is it the address of the API itself?"),
        ("500 Internal Server Error", b"oops", "answered 500 Internal Server Error"),
        ("503 Service Unavailable", b"", "answered 503 Service Unavailable"),
    ):
        attestation_service.seen.clear()
        attestation_service.failure = (status, body)
        assert words in poll_and_get_failure_detail(attestation_client)
        assert len(attestation_service.seen) == 1, status


def test_malformed_response_of_attestation_is_reported(attestation_service, attestation_client):
    url = attestation_service.url
    for document in (
        *(b"", b"<html>", [], {}, {"hosts": None}, {"hosts": ["cn1"]}),
        {"hosts": [{"host_name": "cn1", "vtime": TRUST_TIME_TEXT}]},
        {"hosts": [{"trust_lvl": "trusted", "vtime": TRUST_TIME_TEXT}]},
    ):
        attestation_service.failure = ("200 OK", document)
        assert poll_and_get_failure_detail(attestation_client) == (
            f"the response of {url} to POST /PollHosts does not match the attestation API"
        ), document


class FakeAttestation:
    """An attestation service that returns the same level for every host."""

    def __init__(self) -> None:
        self.polled_hosts: list[list[str]] = []
        self.level: Level | None = Level("trusted", TRUST_TIME)
        self.is_down = False

    def poll(self, hosts):
        self.polled_hosts.append(list(hosts))
        if self.is_down:
            raise ServiceFailed("it is down", service="attestation")
        return dict.fromkeys(hosts, self.level) if self.level else {}


@pytest.fixture
def fake_attestation():
    return FakeAttestation()


@pytest.fixture
def get_trust_levels_at(fake_attestation):
    """Give a function that returns the levels of hosts, some seconds after the start."""
    now = [TRUST_TIME]
    attested = AttestedHosts(fake_attestation.poll, lifetime=60, clock=lambda: now[0])

    def get_trust_levels_after_seconds(seconds, *hosts):
        now[0] = TRUST_TIME + timedelta(seconds=seconds)
        return [attested.get_levels(hosts)[host].level.trust for host in hosts]

    get_trust_levels_after_seconds.attested = attested
    return get_trust_levels_after_seconds


def list_seconds_with_a_poll(fake_attestation, read_levels_at, *seconds):
    """Return the seconds of the polls that the service receives."""
    polls = []
    for moment in seconds:
        before = len(fake_attestation.polled_hosts)
        read_levels_at(moment, "cn1")
        if len(fake_attestation.polled_hosts) > before:
            polls.append(moment)
    return polls


def test_trust_level_is_cached_for_its_lifetime(fake_attestation, get_trust_levels_at):
    assert list_seconds_with_a_poll(fake_attestation, get_trust_levels_at, 0, 1, 59, 60, 61) == [
        0,
        61,
    ]


def test_outdated_trust_level_is_polled_again_after_a_pause(fake_attestation, get_trust_levels_at):
    assert list_seconds_with_a_poll(
        fake_attestation, get_trust_levels_at, 100, 101, 104, 105, 109, 110
    ) == [100, 105, 110]
    assert get_trust_levels_at(110, "cn1") == ["trusted"]


def test_trust_level_with_a_future_time_is_cached_until_it_expires(
    fake_attestation, get_trust_levels_at
):
    fake_attestation.level = Level("trusted", TRUST_TIME + timedelta(seconds=30))
    assert list_seconds_with_a_poll(fake_attestation, get_trust_levels_at, 0, 61, 90, 91) == [0, 91]


def test_unknown_trust_level_is_cached_for_its_lifetime(fake_attestation, get_trust_levels_at):
    fake_attestation.level = None
    assert get_trust_levels_at(0, "cn1") == ["unknown"]
    assert list_seconds_with_a_poll(fake_attestation, get_trust_levels_at, 1, 60, 61) == [61]


def test_unavailable_attestation_is_polled_again_after_a_pause(
    fake_attestation, get_trust_levels_at
):
    fake_attestation.is_down = True
    assert get_trust_levels_at(0, "cn1", "cn2") == ["unknown", "unknown"]
    assert get_trust_levels_at.attested.get_levels(["cn1"])["cn1"].failure == "it is down"
    assert list_seconds_with_a_poll(fake_attestation, get_trust_levels_at, 1, 4) == []
    fake_attestation.is_down = False
    assert get_trust_levels_at(5, "cn1", "cn2") == ["trusted", "trusted"]
    assert fake_attestation.polled_hosts == [["cn1", "cn2"]] * 2


def test_cached_trust_levels_are_dropped_during_an_outage(fake_attestation, get_trust_levels_at):
    assert get_trust_levels_at(0, "cn1") == ["trusted"]
    fake_attestation.is_down = True
    assert get_trust_levels_at(61, "cn1") == ["unknown"]


def test_trust_of_all_hosts_is_polled_if_one_is_not_cached(fake_attestation, get_trust_levels_at):
    get_trust_levels_at(0, "cn1")
    get_trust_levels_at(10, "cn1", "cn2")
    get_trust_levels_at(20, "cn2")
    assert fake_attestation.polled_hosts == [["cn1"], ["cn1", "cn2"]]


def test_trust_levels_of_no_hosts_are_returned_without_a_poll(
    fake_attestation, get_trust_levels_at
):
    assert get_trust_levels_at(0) == []
    assert fake_attestation.polled_hosts == []


def test_concurrent_threads_share_one_attestation_poll(fake_attestation, get_trust_levels_at):
    hosts = [f"cn{number}" for number in range(100)]
    with ThreadPoolExecutor(8) as threads:
        levels = list(
            threads.map(lambda _: get_trust_levels_at.attested.get_levels(hosts), range(64))
        )
    assert len(fake_attestation.polled_hosts) == 1
    assert all(each == levels[0] for each in levels)
