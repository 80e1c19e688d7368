# SPDX-License-Identifier: Apache-2.0
"""Hosts that are down, and evacuations through the API as nova makes them."""

from typing import Any

from tests.support.api_clouds import COMPUTE_HEADERS
from tests.support.scheduling import make_spec, select_hosts


def force_down(app: Any, host: str, *, is_down: bool = True) -> None:
    """Force the compute service of a host down, or revert it."""
    services = app.get(f"/compute/v2.1/os-services?host={host}", headers=COMPUTE_HEADERS)
    path = f"/compute/v2.1/os-services/{services.json['services'][0]['id']}"
    app.put_json(path, {"forced_down": is_down}, headers=COMPUTE_HEADERS)


def request_evacuation(app: Any, host: str, status: int = 200) -> Any:
    """Return the plan to evacuate a host."""
    return app.post_json("/scheduler/v1/evacuation", {"host": host}, status=status).json


def execute_evacuation(app: Any, move: dict[str, str], **fields: Any) -> None:
    """Evacuate an instance as nova does, with its old allocations kept."""
    uuid = move["instance"]
    stored = app.get(f"/scheduler/v1/instances/{uuid}").json
    assert stored["host"] == move["from"]
    request = make_spec(uuid, flavor=stored["flavor"], ignore_hosts=[move["from"]], **fields)
    request["requested_destination"] = {"host": move["to"], "node": move["to"]}
    result = select_hosts(app, request, claim="add")
    assert result["selections"][0][0]["service_host"] == move["to"]
    keys = ("project_id", "user_id", "flavor", "server_group", "request")
    record = {key: stored[key] for key in keys if stored.get(key)}
    body = {**record, "host": move["to"], "node": move["to"], "vm_state": "stopped"}
    app.put_json(f"/scheduler/v1/instances/{uuid}", body)
