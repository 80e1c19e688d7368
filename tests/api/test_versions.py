# SPDX-License-Identifier: Apache-2.0
"""Negotiation of microversions."""

from tests.support.versions import LATEST, LATEST_HEADERS


def test_microversion_is_returned_in_both_microversion_headers(sqlite_app):
    for headers, answered in [
        ({}, "2.1"),
        ({"OpenStack-API-Version": "compute 2.100"}, "2.100"),
        ({"OpenStack-API-Version": "compute latest"}, "2.100"),
        ({"OpenStack-API-Version": f"placement {LATEST}, compute 2.41"}, "2.41"),
        (LATEST_HEADERS, "2.1"),
        ({"X-OpenStack-Nova-API-Version": "2.41"}, "2.41"),
        ({"X-OpenStack-Nova-API-Version": "2.72"}, "2.72"),
        ({"OpenStack-API-Version": "compute 2.79"}, "2.79"),
        ({"X-OpenStack-Nova-API-Version": "latest"}, "2.100"),
        ({"OpenStack-API-Version": "compute 2.30", "X-OpenStack-Nova-API-Version": "2.41"}, "2.30"),
    ]:
        response = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers)
        assert response.headers["OpenStack-API-Version"] == f"compute {answered}", headers
        assert response.headers["X-OpenStack-Nova-API-Version"] == answered, headers
        assert response.headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version", (
            headers
        )


def test_microversion_out_of_range_is_406_with_novas_error_body(sqlite_app):
    for header, text in [
        ("OpenStack-API-Version", "compute {}"),
        ("X-OpenStack-Nova-API-Version", "{}"),
    ]:
        for version in ("2.101", "2.0", "1.1", "3.0"):
            headers = {header: text.format(version)}
            for path in ("os-aggregates", "os-services", "os-hypervisors", "flavors"):
                response = sqlite_app.get(f"/compute/v2.1/{path}", headers=headers, status=406)
                fault = response.json["computeFault"]
                assert fault["code"] == 406, header
                assert f"Version {version} is not supported" in fault["message"], header
                assert "Minimum is 2.1 and maximum is 2.100" in fault["message"], header


def test_malformed_microversion_is_400(sqlite_app):
    for text in ["abc", "2", "2.x", "2.1.1", "2.01", "02.1", "+2.1", "2.+1", "2.1_0", "2.", "2.00"]:
        headers = {"OpenStack-API-Version": f"compute {text}"}
        response = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers, status=400)
        assert (
            f"API Version String {text} is of invalid format"
            in response.json["badRequest"]["message"]
        ), text
        headers = {"X-OpenStack-Nova-API-Version": text}
        response = sqlite_app.get("/compute/v2.1/os-aggregates", headers=headers, status=400)
        assert (
            f"API Version String {text} is of invalid format"
            in response.json["badRequest"]["message"]
        ), text


def test_response_has_the_negotiated_microversion_and_an_unsupported_one_is_406(sqlite_app):
    path = "/placement/resource_providers"
    for requested, answered in (("placement latest", LATEST), ("compute 2.1", "1.0")):
        response = sqlite_app.get(path, headers={"OpenStack-API-Version": requested})
        assert response.headers["OpenStack-API-Version"] == f"placement {answered}"
    for version in ("1.400", "0.9"):
        headers = {"OpenStack-API-Version": f"placement {version}"}
        (error,) = sqlite_app.get(path, headers=headers, status=406).json["errors"]
        assert (error["min_version"], error["max_version"]) == ("1.0", LATEST)
