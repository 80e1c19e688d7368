# SPDX-License-Identifier: Apache-2.0
"""A cloud whose names all attack the pages that show them."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from tests.support.reports import build_report

#: Sends a request as the administrator: method, path, body.
Send = Callable[[str, str, Any], Any]

#: Each attack tries to leave the element, attribute, script, template or URL that contains it.
ATTACKS = (
    "<script>document.title='hacked'</script>",
    "\"><img src=x onerror=document.title='hacked'>",
    "' autofocus onfocus=document.title='hacked' x='",
    "javascript:document.title='hacked'",
    "</title></main><svg onload=document.title='hacked'>",
    "{{ 77777 * 99999 }}{% raw %}${77777*99999}",
    "&lt;b&gt;&#60;script&#62;",
    "../../%2e%2e?#&=;+ \u00e9",
)
INSTANCE = "11111111-1111-4111-8111-11111111111{}"


def create_hostile_cloud(send: Send) -> None:
    """Create hosts, zones, aggregates, flavors, instances and decisions with such names."""
    for number, attack in enumerate(ATTACKS, start=1):
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
        placed = {**request, "instance_uuids": [INSTANCE.format(number)]}
        send("POST", "/scheduler/v1/select_destinations", {"request_spec": placed})
        failed = {**request, "availability_zone": attack.replace(",", ""), "force_hosts": [attack]}
        send("POST", "/scheduler/v1/select_destinations", {"request_spec": failed})
        disabled = {"host": plain["host"], "binary": "nova-compute", "disabled_reason": attack}
        send("PUT", "/compute/v2.1/os-services/disable-log-reason", disabled)
        name = {"host": report["host"], "node": report["host"], "display_name": attack}
        owner = {"project_id": attack[:60], "user_id": attack[:60], "flavor": attack}
        send("PUT", f"/scheduler/v1/instances/{INSTANCE.format(number)}", {**name, **owner})


def list_pages(read: Callable[[str], Any]) -> Iterator[str]:
    """Yield the addresses of pages that show these names. ``read`` returns a list of an API."""
    yield from ("/", "/console/decisions", "/console/aggregates", "/console/policies")
    yield "/console/capacity"
    for attack in ATTACKS:
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
