# SPDX-License-Identifier: Apache-2.0
"""An attestation service asked over HTTPS: what it tells, and how it is told that it does not."""

from datetime import datetime

import pytest
import trustme

from placement_sched.clients.attestation import Attestation, Level
from placement_sched.errors import ServiceFailed
from tests.support.attestation import run_attestation_service

TIME = "2026-01-01T12:00:00Z"
SINCE = datetime(2026, 1, 1, 12)


@pytest.fixture
def fake(tmp_path):
    with run_attestation_service(tmp_path) as service:
        service.hosts = {"cn1": ("trusted", TIME), "cn2": ("untrusted", TIME)}
        yield service


@pytest.fixture
def attestation(fake):
    return Attestation(fake.url, verify=fake.ca_file)


def failure(attestation) -> str:
    with pytest.raises(ServiceFailed) as told:
        attestation.poll(["cn1"])
    assert told.value.service == "attestation"
    assert "\n" not in told.value.detail
    return told.value.detail


def test_hosts_are_polled_all_at_once(fake, attestation):
    assert attestation.poll(["cn1", "cn2", "cn3"]) == {
        "cn1": Level("trusted", SINCE),
        "cn2": Level("untrusted", SINCE),
    }
    assert fake.seen == [{"count": 3, "hosts": ["cn1", "cn2", "cn3"]}]
    assert fake.blobs == [None]


def test_service_is_told_who_asks(fake):
    Attestation(fake.url, verify=fake.ca_file, blob="let-me-in").poll(["cn1"])
    assert fake.blobs == ["let-me-in"]


@pytest.mark.parametrize(
    ("vtime", "since"),
    [
        ("2026-01-01T12:00:00Z", SINCE),
        ("2026-01-01T12:00:00", SINCE),
        ("2026-01-01T12:00:00.000+00:00", SINCE),
        ("2026-01-01T14:30:00+02:30", SINCE),
        ("Thu Jan  1 12:00:00 2026", SINCE),
        ("yesterday", None),
        ("", None),
        (None, None),
        (1767268800, None),
    ],
)
def test_time_is_read_as_both_services_write_it_and_without_one_nothing_is_known(
    fake, attestation, vtime, since
):
    fake.hosts = {"cn1": ("trusted", vtime)}
    level = Level("trusted", since) if since else Level("unknown", None)
    assert attestation.poll(["cn1"]) == {"cn1": level}


def test_certificate_that_another_signed_is_refused(fake, tmp_path):
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    for verify in (str(other), True):
        told = failure(Attestation(fake.url, verify=verify))
        assert told.startswith(f"{fake.url} does not answer: ")
        assert "certificate" in told
    assert fake.seen == []


def test_certificate_for_another_name_is_refused(tmp_path):
    with run_attestation_service(tmp_path, "attestation.example.org") as service:
        told = failure(Attestation(service.url, verify=service.ca_file))
    assert "certificate" in told
    assert service.seen == []


def test_insecure_takes_any_certificate_and_is_warned_of(fake, caplog):
    level = Attestation(fake.url, verify=False).poll(["cn1"])["cn1"]
    assert level.trust == "trusted"
    assert [one.getMessage() for one in caplog.records] == [
        f"the certificate of {fake.url} is not verified: any server may impersonate it"
    ]


def test_file_of_certificates_that_is_not_there_is_told(fake):
    told = failure(Attestation(fake.url, verify="/no/such/file"))
    assert "/no/such/file" in told


def test_service_that_is_down_is_told(fake):
    url = "https://127.0.0.1:1"  # no program is given port 1 as a free one
    told = failure(Attestation(url, verify=fake.ca_file))
    assert told == f"{url} does not answer: Connection refused"


def test_service_that_is_slow_is_not_waited_for_longer_than_told(fake):
    fake.awake.clear()
    told = failure(Attestation(fake.url, verify=fake.ca_file, timeout=0.2))
    assert "timed out" in told
    assert len(fake.seen) <= 1


def test_service_that_does_not_speak_tls_is_told(fake):
    told = failure(Attestation(fake.url.replace("https:", "http:"), verify=fake.ca_file))
    assert "does not answer" in told


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("401 Unauthorized", {}), "answered 401 Unauthorized to POST /PollHosts"),
        (("404 Not Found", b"nginx"), "is the address that of the API itself?"),
        (("500 Internal Server Error", b"oops"), "answered 500 Internal Server Error"),
        (("503 Service Unavailable", b""), "answered 503 Service Unavailable"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_answer_that_is_none_is_told_and_not_asked_for_again(fake, attestation, answer, words):
    fake.failure = answer
    assert words in failure(attestation)
    assert len(fake.seen) == 1


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        [],
        {},
        {"hosts": None},
        {"hosts": ["cn1"]},
        {"hosts": [{"host_name": "cn1", "vtime": TIME}]},
        {"hosts": [{"trust_lvl": "trusted", "vtime": TIME}]},
    ],
)
def test_answer_that_does_not_fit_is_told(fake, attestation, document):
    fake.failure = ("200 OK", document)
    words = f"{fake.url} did not answer POST /PollHosts as an attestation service does"
    assert failure(attestation) == words
