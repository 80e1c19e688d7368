# SPDX-License-Identifier: Apache-2.0
"""Unusual spellings of paths that a token or a proxy protects."""

import pytest

from tests.chaos.probes.raw_http import RawHttpClient
from tests.chaos.run_length import TRIED_KEY
from tests.deploy import haproxy, nginx
from tests.support.versions import LATEST

pytestmark = pytest.mark.system
#: Spellings of ``/metrics``, a path that a proxy does not forward.
METRICS_PATH_SPELLINGS = [
    "/metrics",
    "//metrics",
    "/metrics/",
    "/metrics//",
    "/./metrics",
    "/a/../metrics",
    "/placement/../metrics",
    "/placement/%2e%2e/metrics",
    "/placement/..;/metrics",
    "/%2e/metrics",
    "/%6detrics",
    "/%6Detric%73",
    "/%256detrics",
    "/%2fmetrics",
    "/%5cmetrics",
    "\\metrics",
    "/metrics%2f",
    "/metrics%00",
    "/metrics%20",
    "/metrics%0a",
    "/metrics;a=b",
    "/metrics?a=b",
    "/metrics#a",
    "/METRICS",
    "/%c0%ae/metrics",
    "/%c0%afmetrics",
    "http://other/metrics",
    "http://other//metrics",
    "https://localhost/%6detrics",
]
#: Spellings of a path that needs a token.
TRAITS_PATH_SPELLINGS = [
    "/placement/traits",
    "//placement/traits",
    "/placement//traits",
    "/placement/./traits",
    "/placement/traits/",
    "/placement/%74raits",
    "/%70lacement/traits",
    "/PLACEMENT/traits",
    "/placement;/traits",
    "/placement/traits;.json",
    "/placement/traits%00",
    "/placement/traits%20",
    "/placement/traits/%2e",
    "/healthz/../placement/traits",
    "/healthz/%2e%2e/placement/traits",
    "/healthz%2f..%2fplacement/traits",
    "/healthz/..;/placement/traits",
    "/healthz%00/placement/traits",
    "/?/placement/traits",
    "http://other/placement/traits",
]
#: Paths that break decoders, or forge a header if they are copied into it.
MALFORMED_PATHS = [
    "/placement/traits/%",
    "/placement/traits/%zz",
    "/placement/traits/%ff",
    "/placement/traits/%c0%80",
    "/placement/traits/%ed%a0%80",
    "/placement/traits/%u0041",
    "/placement/traits/%0d%0aX-Forged:%20yes",
    "/placement/traits?name=in:%0d%0aX-Forged:%20yes",
    "/placement/traits?name=%ff&name=%00",
    "/placement/usages?project_id=%ff",
    "/compute/v2.1/flavors/%2e%2e",
    "/compute/%0d%0aX-Forged:%20yes",
    "/compute?%0d%0aX-Forged:%20yes",
    "/image/v2/images/..%2f..%2fplacement",
    "/console/..%2f..%2f..%2fetc%2fpasswd",
    "/console/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/" + "a/" * 5000,
    "/placement/traits/" + "A" * 5000,
    "/placement/allocation_candidates?resources=VCPU:" + "9" * 400,
]


def build_raw_get_request(path: str, token: str) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nOpenStack-API-Version: placement {LATEST}"
    return f"{head}\r\n{token}Connection: close\r\n\r\n".encode("latin-1")


TOKEN_HEADERS = ("", "X-Auth-Token: bob\r\n", "X-Auth-Token: admin\r\n")


@pytest.fixture
def server(serve):
    return serve(OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true")


def test_unusual_path_without_token_does_not_show_traits(server, record_property):
    client = RawHttpClient(server.url)
    for path in TRAITS_PATH_SPELLINGS:
        (response,) = client.send_bytes(build_raw_get_request(path, ""))
        public = path.startswith("/?")  # the console's first page
        assert response.status in ({200, 303} if public else {400, 401, 404}), path
        assert b"HW_CPU_X86" not in response.text, path
    paths = [*TRAITS_PATH_SPELLINGS, *METRICS_PATH_SPELLINGS, *MALFORMED_PATHS]
    for path in paths:
        for token in TOKEN_HEADERS:
            (response,) = client.send_bytes(build_raw_get_request(path, token))
            assert response.status < 500, (path, response)
            head = response.text.partition(b"\r\n\r\n")[0]
            assert b"\r\nx-forged:" not in head.lower(), (path, response)
            assert b"root:x:0" not in response.text, path
    assert "Traceback" not in server.log.read_text()
    record_property(TRIED_KEY, f"{len(paths)} paths x {len(TOKEN_HEADERS)} callers")


@pytest.mark.parametrize("proxy", [haproxy, nginx], ids=["haproxy", "nginx"])
def test_unusual_path_through_a_proxy_does_not_show_metrics(proxy, server, tmp_path):
    port = int(server.url.rpartition(":")[2])
    with proxy.start_proxy(tmp_path, [port]) as (url, certificate):
        client = RawHttpClient(url, certificate)
        shown = []
        for path in METRICS_PATH_SPELLINGS:
            for response in client.send_bytes(build_raw_get_request(path, "")):
                assert response.status < 500, (path, response)
                if b"# HELP" in response.text:
                    shown.append(path)
        assert shown == []
