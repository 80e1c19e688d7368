# SPDX-License-Identifier: Apache-2.0
"""A client of the compute API."""


class ComputeClient:
    """Sends requests with the administrator's token and the newest microversion as defaults.

    A path is below ``url`` or the whole path of the compute API.
    """

    url = "/compute/v2.1"

    def __init__(self, app):
        self.app = app

    def request(
        self, method, path="", body=None, *, status=200, version="2.100", token="admin", roles=None
    ):
        headers = {"OpenStack-API-Version": f"compute {version}", "X-Auth-Token": token}
        if roles is not None:
            headers["X-Roles"] = roles
        url = path if path.startswith(ComputeClient.url) else f"{self.url}{path}"
        if body is None:
            return self.app.request(url, method=method, headers=headers, status=status)
        send = getattr(self.app, f"{method.lower()}_json")
        return send(url, body, headers=headers, status=status)


def get_error_message(response):
    (fault,) = response.json.values()
    return fault["message"]
