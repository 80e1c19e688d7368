# SPDX-License-Identifier: Apache-2.0
"""Short calls of the compute API for server groups."""

from tests.api.compute.client import ComputeClient

SERVER_GROUPS_URL = "/compute/v2.1/os-server-groups"


class ServerGroupApi(ComputeClient):
    """A client of the server groups."""

    url = SERVER_GROUPS_URL

    def create_group(self, name="g", policy="affinity", rules=None, **options):
        """Create a group of 2.64 and return it."""
        fields = {"name": name, "policy": policy} | ({} if rules is None else {"rules": rules})
        response = self.request("POST", "", {"server_group": fields}, **options)
        return response.json.get("server_group") or response.json

    def show_group(self, uuid, **options):
        return self.request("GET", f"/{uuid}", **options).json.get("server_group")

    def list_group_names(self, query="", **options):
        return [
            each["name"] for each in self.request("GET", query, **options).json["server_groups"]
        ]

    def record_group_member(self, uuid, group=None, status=200, **fields):
        body = {"server_group": group, **fields}
        return self.app.put_json(f"/scheduler/v1/instances/{uuid}", body, status=status).json
