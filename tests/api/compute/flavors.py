# SPDX-License-Identifier: Apache-2.0
"""Short calls of the compute API for flavors."""

from tests.api.compute.client import ComputeClient

FLAVORS_URL = "/compute/v2.1/flavors"


class FlavorApi(ComputeClient):
    """A client of the flavors."""

    url = FLAVORS_URL

    def create_flavor(self, flavorid=None, *, status=200, version="2.96", **fields):
        """Create a flavor. The fields have Python names, and the name defaults to the id."""
        flavor = {"name": flavorid, "ram": 512, "vcpus": 1, "disk": 0, "id": flavorid}
        flavor.update(
            {PREFIXED_FLAVOR_FIELDS.get(key, key): value for key, value in fields.items()}
        )
        response = self.request("POST", "", {"flavor": flavor}, status=status, version=version)
        return response.json.get("flavor") or response.json

    def show_flavor(self, flavorid, **options):
        return self.request("GET", f"/{flavorid}", **options).json.get("flavor")

    def list_flavor_ids(self, query="", **options):
        return [each["id"] for each in self.request("GET", query, **options).json["flavors"]]

    def add_extra_specs(self, flavorid, extra_specs, **options):
        return self.request(
            "POST", f"/{flavorid}/os-extra_specs", {"extra_specs": extra_specs}, **options
        )

    def add_project_access(self, flavorid, project, **options):
        body = {"addTenantAccess": {"tenant": project}}
        return self.request("POST", f"{FLAVORS_URL}/{flavorid}/action", body, **options)

    def remove_project_access(self, flavorid, project, **options):
        body = {"removeTenantAccess": {"tenant": project}}
        return self.request("POST", f"{FLAVORS_URL}/{flavorid}/action", body, **options)


#: nova's longer names of fields.
PREFIXED_FLAVOR_FIELDS = {
    "is_public": "os-flavor-access:is_public",
    "ephemeral": "OS-FLV-EXT-DATA:ephemeral",
}
