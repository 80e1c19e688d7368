# SPDX-License-Identifier: Apache-2.0
"""The client of Prometheus, with recorded responses and broken servers."""

import ssl
from datetime import datetime
from math import isnan

import pytest
import trustme

from placement_sched.errors import ServiceFailed
from placement_sched.extensions.load.prometheus import Prometheus
from placement_sched.extensions.load.values import Series
from tests.extensions.load.fake_prometheus import PARSE_ERROR, FakePrometheus, build_vector
from tests.support.loopback import reserve_port, run_fake_service, send_json, serve_application


@pytest.fixture
def make_client(sqlite_settings, with_load):
    return lambda **options: Prometheus(with_load(sqlite_settings, **options).load)


def test_vector_is_read_with_labels_value_and_time(prometheus, make_client):
    labels = {"nodename": "cn1", "job": "node"}
    prometheus.responses["cpu"] = build_vector((labels, "0.25"))
    (series,) = make_client().query("cpu")
    assert series == Series(labels, 0.25, datetime(2026, 1, 1, 12, 0, 0, 123000))
    assert prometheus.seen == [("/api/v1/query", None, "cpu")]


def test_nan_and_infinity_are_read(prometheus, make_client):
    prometheus.responses["cpu"] = build_vector(cn1="NaN", cn2="+Inf", cn3="-Inf")
    nan, *infinities = (series.value for series in make_client().query("cpu"))
    assert isnan(nan)
    assert infinities == [float("inf"), float("-inf")]


def test_ten_thousand_series_are_read(prometheus, make_client):
    pairs = [({"nodename": f"cn{number}"}, number / 10_000) for number in range(10_000)]
    prometheus.responses["cpu"] = build_vector(*pairs)
    assert [series.value for series in make_client().query("cpu")] == [value for _, value in pairs]


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({"prometheus_token": "secret"}, "Bearer secret"),
        ({"prometheus_username": "u", "prometheus_password": "p"}, "Basic dTpw"),
        ({"prometheus_token": "secret", "prometheus_username": "u"}, "Bearer secret"),
    ],
)
def test_token_or_password_is_sent(prometheus, make_client, options, header):
    make_client(**options).query("cpu")
    assert [request[1] for request in prometheus.seen] == [header]


def test_path_of_the_address_is_kept(prometheus, make_client):
    make_client(prometheus_url=f"{prometheus.url}/prometheus/").query("a + b")
    assert prometheus.seen == [("/prometheus/api/v1/query", None, "a + b")]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (("400 Bad Request", PARSE_ERROR), f"Prometheus: {PARSE_ERROR['error']}"),
        (
            ("503 Service Unavailable", {"status": "error", "error": "query timed out\nin eval"}),
            "Prometheus: query timed out in eval",
        ),
        (("422 Unprocessable", {"status": "error", "error": "x" * 5000}), "x" * 1000),
        (("401 Unauthorized", b"Unauthorized\n"), "401 Unauthorized to GET /api/v1/query. Check"),
        (("403 Forbidden", b""), "403 Forbidden to GET /api/v1/query. Check [load]"),
        (("502 Bad Gateway", b"<html>"), "answered 502 Bad Gateway to GET /api/v1/query"),
        (("200 OK", b"<html>sign in</html>"), "without the JSON of Prometheus"),
        (("200 OK", ["success"]), "without the JSON of Prometheus"),
        (("200 OK", {"status": "success"}), "does not match the prometheus API"),
        (("200 OK", {"status": "success", "data": {"resultType": "vector"}}), "does not match"),
        (("200 OK", build_vector(({}, "much"))), "does not match the prometheus API"),
        (("200 OK", build_vector(("labels", 1))), "does not match the prometheus API"),
        (("200 OK", build_vector(({}, 1), time=1e300)), "does not match the prometheus API"),
        (
            ("200 OK", {"status": "success", "data": {"resultType": "matrix", "result": []}}),
            "the result is a matrix, and must be an instant vector",
        ),
        (
            ("200 OK", {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}),
            "the result is a scalar",
        ),
    ],
)
def test_wrong_response_is_an_error(prometheus, make_client, failure, words):
    prometheus.failure = failure
    with pytest.raises(ServiceFailed) as caught:
        make_client().query("cpu")
    assert words in caught.value.detail
    assert len(caught.value.detail) < 1100
    assert len(prometheus.seen) == 1  # no retry


def test_login_is_not_sent_to_another_address(prometheus, make_client):
    def redirect(_environ, start_response):
        return send_json(start_response, "302 Found", {}, ("Location", prometheus.url))

    with serve_application(redirect) as url:
        client = make_client(prometheus_url=url, prometheus_token="secret")
        with pytest.raises(ServiceFailed, match="answered 302 Found"):
            client.query("cpu")
    assert prometheus.seen == []


def test_absent_prometheus_is_an_error(make_client):
    with reserve_port() as holder:
        url = f"http://127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(ServiceFailed, match="does not answer: Connection refused"):
            make_client(prometheus_url=url).query("cpu")


def test_slow_prometheus_is_an_error_after_the_timeout(prometheus, make_client):
    prometheus.awake.clear()
    with pytest.raises(ServiceFailed, match="does not answer"):
        make_client(prometheus_timeout=0.2).query("cpu")


def test_certificate_is_verified_with_the_configured_ca(make_client, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    service = FakePrometheus()
    with run_fake_service(service, context):
        assert make_client(prometheus_url=service.url, prometheus_cafile=str(file)).query("x") == []
        with pytest.raises(ServiceFailed, match=r"absent\.pem"):
            make_client(prometheus_url=service.url, prometheus_cafile="absent.pem").query("x")
        with pytest.raises(ServiceFailed, match="certificate"):
            make_client(prometheus_url=service.url).query("x")
