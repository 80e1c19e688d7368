# SPDX-License-Identifier: Apache-2.0
"""Reports of hosts, and short calls for their services and hypervisors."""

from datetime import timedelta

from tests.api.compute.client import ComputeClient, get_error_message
from tests.support.reports import NOW, build_report, node_uuid

SERVICES_PATH = "/os-services"
HYPERVISORS_PATH = "/os-hypervisors"


class HostApi(ComputeClient):
    """A client of services and hypervisors that reports hosts."""

    def report_host(self, number=1, *, silent=0, **fields):
        """Send the report of host ``cn<number>`` with a time ``silent`` seconds ago."""
        seen = (NOW - timedelta(seconds=silent)).isoformat()
        report = build_report(number, **{"last_seen_up": seen, **fields})
        uuid = report.pop("uuid")
        self.app.put_json(f"/scheduler/v1/compute_nodes/{uuid}", report)
        return uuid

    def report_hosts(self, count, **fields):
        """Send the reports of ``count`` hosts in a request."""
        reports = [build_report(number, **fields) for number in range(count)]
        self.app.post_json("/scheduler/v1/compute_nodes", reports)

    def record_instance(self, uuid, host, node=None, name="one"):
        body = {"host": host, "node": node, "display_name": name}
        self.app.put_json(f"/scheduler/v1/instances/{uuid}", body)

    def list_services(self, query="", **options):
        return self.request("GET", f"{SERVICES_PATH}{query}", **options).json["services"]

    def read_service(self, host="cn1", **options):
        (row,) = self.list_services(f"?host={host}", **options)
        return row

    def change_service(self, fields, host="cn1", **options):
        """Change the service of a host by its uuid and return it, or the error message."""
        uuid = self.read_service(host)["id"]
        response = self.request("PUT", f"{SERVICES_PATH}/{uuid}", fields, **options)
        return response.json.get("service") or get_error_message(response)

    def change_service_by_name(self, action, *, version="2.11", **fields):
        """Change a service by host and binary (before 2.53) and return the response."""
        status = fields.pop("status", 200)
        body = {"host": "cn1", "binary": "nova-compute", **fields}
        return self.request(
            "PUT", f"{SERVICES_PATH}/{action}", body, version=version, status=status
        )

    def delete_service(self, host="cn1", **options):
        return self.request("DELETE", f"{SERVICES_PATH}/{self.read_service(host)['id']}", **options)

    def list_hypervisors(self, query="", **options):
        return self.request("GET", f"{HYPERVISORS_PATH}{query}", **options).json["hypervisors"]

    def show_hypervisor(self, number=1, query="", **options):
        path = f"{HYPERVISORS_PATH}/{node_uuid(number)}{query}"
        return self.request("GET", path, **options).json["hypervisor"]

    def read_traits(self, number=1):
        path = f"/placement/resource_providers/{node_uuid(number)}/traits"
        headers = {"OpenStack-API-Version": "placement 1.6"}
        return set(self.app.get(path, headers=headers).json["traits"])
