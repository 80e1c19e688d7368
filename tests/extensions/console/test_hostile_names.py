# SPDX-License-Identifier: Apache-2.0
"""Names from users are shown as text on every page."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest
from webtest import TestApp

from tests.support.reports import build_report

#: Sends a request as the administrator: method, path, body.
RequestSender = Callable[[str, str, Any], Any]

#: Each attack tries to leave the element, attribute, script, template or URL that contains it.
HOSTILE_NAMES = (
    "<script>document.title='hacked'</script>",
    "\"><img src=x onerror=document.title='hacked'>",
    "' autofocus onfocus=document.title='hacked' x='",
    "javascript:document.title='hacked'",
    "</title></main><svg onload=document.title='hacked'>",
    "{{ 77777 * 99999 }}{% raw %}${77777*99999}",
    "&lt;b&gt;&#60;script&#62;",
    "../../%2e%2e?#&=;+ \u00e9",
)
INSTANCE_UUID_FORMAT = "11111111-1111-4111-8111-11111111111{}"


def create_objects_with_hostile_names(send: RequestSender) -> None:
    """Create hosts, zones, aggregates, flavors, instances and decisions with such names."""
    for number, attack in enumerate(HOSTILE_NAMES, start=1):
        uuid = build_report(number)["uuid"]
        report = build_report(
            number, host=f"{number}{attack}", hypervisor_hostname=f"{number}{attack}"
        )
        send("PUT", f"/scheduler/v1/compute_nodes/{uuid}", report)
        body = {"name": attack, "availability_zone": attack.replace(":", "")}
        aggregate = send("POST", "/compute/v2.1/os-aggregates", {"aggregate": body})["aggregate"]
        tags = {"set_metadata": {"metadata": {"owner": attack, "trait:HW_CPU_X86_VMX": "required"}}}
        send("POST", f"/compute/v2.1/os-aggregates/{aggregate['id']}/action", tags)
        # A host can join an aggregate only if its name is a DNS name, as in nova.
        plain = build_report(number + 100)
        send("PUT", f"/scheduler/v1/compute_nodes/{plain['uuid']}", plain)
        joins = {"add_host": {"host": plain["host"]}}
        send("POST", f"/compute/v2.1/os-aggregates/{aggregate['id']}/action", joins)
        flavor = {"name": attack, "ram": 512, "vcpus": 1, "disk": 1}
        send("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        request = {"project_id": attack[:60], "user_id": attack[:60], "flavor": attack}
        placed = {**request, "instance_uuids": [INSTANCE_UUID_FORMAT.format(number)]}
        send("POST", "/scheduler/v1/select_destinations", {"request_spec": placed})
        failed = {**request, "availability_zone": attack.replace(",", ""), "force_hosts": [attack]}
        send("POST", "/scheduler/v1/select_destinations", {"request_spec": failed})
        disabled = {"host": plain["host"], "binary": "nova-compute", "disabled_reason": attack}
        send("PUT", "/compute/v2.1/os-services/disable-log-reason", disabled)
        name = {"host": report["host"], "node": report["host"], "display_name": attack}
        owner = {"project_id": attack[:60], "user_id": attack[:60], "flavor": attack}
        send(
            "PUT",
            f"/scheduler/v1/instances/{INSTANCE_UUID_FORMAT.format(number)}",
            {**name, **owner},
        )


def generate_urls_of_pages(read: Callable[[str], Any]) -> Iterator[str]:
    """Yield the addresses of pages that show these names. ``read`` returns a list of an API."""
    yield from ("/", "/console/decisions", "/console/aggregates", "/console/policies")
    yield "/console/capacity"
    for field in ("flavor", "zone", "hint", "policy", "beside", "host", "stage"):
        for attack in (" ".join(HOSTILE_NAMES), "javascript:1"):
            value = f"x={attack}" if field == "hint" else attack
            yield f"/console/ask?{urlencode({'vcpus': '1', field: value})}"
    for attack in HOSTILE_NAMES:
        yield f"/console/ask?{urlencode({'flavor': attack, 'zone': attack, 'host': attack})}"
        for path in ("", "/plan", "/row"):
            yield f"/console/capacity{path}?{urlencode({'flavor': attack, 'drain': attack})}"
        yield f"/console/decisions?{urlencode({'project_id': attack, 'outcome': attack})}"
        yield f"/console/{quote(attack, safe='')}"
        yield f"/?{urlencode({'search': attack, 'zone': attack, 'trait': attack})}"
    for host in read("/scheduler/v1/hosts")["hosts"]:
        yield f"/console/hosts/{quote(host['host'], safe='')}"
    for decision in read("/scheduler/v1/decisions")["decisions"]:
        yield f"/console/decisions/{decision['uuid']}"
    for decision in read("/scheduler/v1/decisions")["decisions"][:2]:
        yield f"/console/decisions/{decision['uuid']}/replay"


@pytest.fixture
def app_with_hostile_names(sqlite_app):
    def send(method, path, body):
        response = sqlite_app.request(
            path,
            method=method,
            body=orjson.dumps(body),
            headers={"Content-Type": "application/json"},
            status="*",
        )
        is_rejected = response.status_int >= 400 and "no_valid_host" not in response
        assert not is_rejected, (path, body, response.text)
        return response.json_body if response.body else {}

    create_objects_with_hostile_names(send)
    return sqlite_app


@pytest.mark.slow
def test_hostile_names_add_no_element_or_attribute(app_with_hostile_names):
    hosts = app_with_hostile_names.get("/scheduler/v1/hosts").json["hosts"]
    assert len(hosts) == 2 * len(HOSTILE_NAMES)
    browser = TestApp(app_with_hostile_names.app)
    seen = 0
    for path in generate_urls_of_pages(lambda address: app_with_hostile_names.get(address).json):
        page = browser.get(path, headers={"Accept": "text/html"}, status="*")
        if page.content_type != "text/html":
            continue
        seen += 1
        html = page.html
        assert page.status_int < 500, (path, page.text[-500:])
        assert list(html.find_all("img")) == [], path
        assert all(tag.get("src", "").startswith("/console/") for tag in html.find_all("script"))
        assert all(not tag.text for tag in html.find_all("script")), path
        for tag in html.find_all(True):
            assert [name for name in tag.attrs if name.startswith("on") or name == "style"] == []
            for name in ("href", "src", "action", "formaction"):
                address = tag.get(name, "/")
                assert address.startswith(("/", "#", "?")), (path, tag)
                assert not address.startswith("//"), (path, tag)
        # The product of the numbers in the attack, which has more digits than a uuid.
        assert "7777622223" not in page.text, path
    assert seen > 40
