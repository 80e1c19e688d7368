# SPDX-License-Identifier: Apache-2.0
"""Names with line breaks and control characters in the log."""

import re

import pytest

from tests.chaos.probes.raw_http import RawHttpClient
from tests.chaos.run_length import TRIED_KEY
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.system
#: Beginnings of the lines in the server's log.
LOG_LINE_BEGINNING = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ [A-Z]+ |placement-sched serves|the console"
)
#: Names that would forge a line or change the terminal if they were not escaped.
NAMES_LIKE_LOG_LINES = [
    "a\n2026-11-23 12:00:00.000 1 ERROR forged",
    "a\r\nforged",
    "a\x1b[2J\x1b]0;forged\x07",
    "a\u2028forged",
    "a\u0085forged",
    "a\u202eforged",
    "a\x08\x08\x08forged",
    "%s%n%(levelname)s{0}",
]
HEADER_NAMES = (
    "User-Agent",
    "X-Openstack-Request-Id",
    "X-Forwarded-For",
    "Forwarded",
    "Accept",
    "Origin",
)


def build_requests_with_object_name(name: str) -> list[tuple[str, str, object]]:
    """Return valid and invalid requests that contain the name."""
    small = make_spec(
        make_uuid(1), flavor=make_flavor(extra_specs={name: name, "trait:CUSTOM_A": name})
    )
    huge = make_spec(
        make_uuid(2), flavor=make_flavor(vcpus=100_000), availability_zone=name, user_id=name
    )
    return [
        ("POST", "/placement/resource_providers", {"name": name}),
        ("POST", "/scheduler/v1/compute_nodes", [{**make_report("cn1"), "host": name}]),
        ("POST", "/scheduler/v1/compute_nodes", [{**make_report("cn2"), "hypervisor_type": name}]),
        ("POST", "/scheduler/v1/select_destinations", {"request_spec": small}),
        ("POST", "/scheduler/v1/select_destinations", {"request_spec": huge}),
        ("POST", "/scheduler/v1/explain", {"request_spec": huge}),
        ("POST", "/compute/v2.1/os-aggregates", {"aggregate": {"name": name}}),
        (
            "POST",
            "/compute/v2.1/os-server-groups",
            {"server_group": {"name": name, "policies": [name]}},
        ),
        ("POST", "/image/v2/images", {"name": name, name: name}),
        ("PUT", "/compute/v2.1/os-services/disable", {"host": name, "binary": name}),
    ]


def build_requests_with_header_value(name: str) -> list[bytes]:
    """Return requests with the name in a header, in the path and in the query string."""
    written = name.encode()
    escaped = "".join(f"%{byte:02x}" for byte in written).encode()
    common = f"\r\nHost: a\r\nOpenStack-API-Version: placement {LATEST}\r\nConnection: close\r\n"
    lines = [(b"GET /placement/traits/" + escaped, b""), (b"GET /placement/traits?" + escaped, b"")]
    if not re.search(r"[\r\n]", name):
        lines += [
            (b"GET /placement/traits", header.encode() + b": " + written + b"\r\n")
            for header in (*HEADER_NAMES, "X-Auth-Token")
        ]
    return [line + b" HTTP/1.1" + common.encode() + more + b"\r\n" for line, more in lines]


def test_object_names_and_headers_cannot_forge_log_lines(serve, record_property):
    server = serve(
        OS_DEFAULT__DEBUG="true", OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true"
    )
    count = 0
    for name in NAMES_LIKE_LOG_LINES:
        for method, path, body in build_requests_with_object_name(name):
            assert server.send(method, path, body, **LATEST_HEADERS)[0] < 500, (path, name)
            count += 1
        for sent in build_requests_with_header_value(name):
            for response in RawHttpClient(server.url).send_bytes(sent):
                assert response.status < 500, (sent, response)
            count += 1
    text = server.log.read_bytes().decode()
    assert "forged" in text  # in escaped form
    wrong = [line for line in text.split("\n") if line and not LOG_LINE_BEGINNING.match(line)]
    assert wrong == []
    odd = [line for line in text.split("\n") if not line.isprintable()]
    assert [repr(line) for line in odd] == []
    record_property(TRIED_KEY, f"{count} requests with names that are log lines")
