# SPDX-License-Identifier: Apache-2.0
"""Server groups and requests that name them."""

from tests.support.scheduling import make_spec

SELECT_PATH = "/scheduler/v1/select_destinations"
SERVER_GROUPS_PATH = "/compute/v2.1/os-server-groups"
COMPUTE_HEADERS = {"OpenStack-API-Version": "compute 2.96"}


def create_group(app, name="g", policy="anti-affinity", token="admin:p1", **rules):
    body = {"server_group": {"name": name, "policy": policy, "rules": rules}}
    headers = {**COMPUTE_HEADERS, "X-Auth-Token": token, "X-Roles": "admin"}
    return app.post_json(SERVER_GROUPS_PATH, body, headers=headers).json["server_group"]["id"]


def post_request_spec(app, *instances, status=200, path=SELECT_PATH, **fields):
    body = {"request_spec": make_spec(*instances, **fields)}
    return app.post_json(path, body, status=status).json


def read_group_members(app, group):
    headers = {**COMPUTE_HEADERS, "X-Auth-Token": "admin"}
    return app.get(f"{SERVER_GROUPS_PATH}/{group}", headers=headers).json["server_group"]["members"]
