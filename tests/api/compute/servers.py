# SPDX-License-Identifier: Apache-2.0
"""Short calls of the compute API for servers, and records of instances."""

from datetime import timedelta

from tests.api.compute.client import ComputeClient
from tests.conftest import make_settings
from tests.support.reports import NOW, build_report
from tests.support.scheduling import make_uuid

SERVERS_URL = "/compute/v2.1/servers"
SHOP_READER = {"token": "bob:shop", "roles": "reader"}


class ServerApi(ComputeClient):
    """A client of the servers that records instances."""

    url = SERVERS_URL

    def __init__(self, url, make_app, **options):
        self.now = NOW
        settings = make_settings(url, **{"DEFAULT__service_down_time": 60, **options})
        super().__init__(make_app(settings, clock=lambda: self.now))
        self.database = self.app.app.services.database

    def record_instance(self, number, *, later=0, **fields):
        """Record an instance of the project ``shop``, ``later`` seconds after the first time."""
        self.now = NOW + timedelta(seconds=later)
        body = {"project_id": "shop", "user_id": "bob", "display_name": f"s{number}", **fields}
        path = f"/scheduler/v1/instances/{make_uuid(number)}"
        return self.app.put_json(path, body).json

    def report_hosts(self, *numbers):
        reports = [build_report(number) for number in numbers]
        self.app.post_json("/scheduler/v1/compute_nodes", reports)

    def create_zone(self, name, *hosts):
        aggregate = self.app.post_json(
            "/compute/v2.1/os-aggregates", {"aggregate": {"name": name, "availability_zone": name}}
        ).json["aggregate"]
        for host in hosts:
            action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
            self.app.post_json(action, {"add_host": {"host": host}})

    def show_server(self, number, **options):
        return self.request("GET", f"/{make_uuid(number)}", **options).json.get("server")

    def list_server_names(self, query="all_tenants=1", **options):
        response = self.request("GET", f"?{query}", **options)
        return [each["name"] for each in response.json["servers"]]
