# SPDX-License-Identifier: Apache-2.0
"""The request of an existing or failed server, for ``explain --server``.

It is nova's request spec if the configuration has nova's API database, which is only read.
Otherwise it is the request in the record of the instance.
"""

import argparse
from contextlib import closing

from placement_sched.cli.database import find_cloud_source, read_command_settings
from placement_sched.cli.scheduler.scheduler_client import SchedulerClient
from placement_sched.config.settings import is_explicit
from placement_sched.errors import NotFound
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance
from placement_sched.model.instance_request import (
    build_request_document,
    describe_unknown_facts,
    find_unknown_facts,
)
from placement_sched.model.names import join_words
from placement_sched.nova.databases import get_api_database
from placement_sched.nova.databases.requests import map_request_specs, read_request_spec

#: Keys of a request spec that describe the whole call, or an earlier attempt.
_DROPPED = ("num_instances", "limits", "retry", "security_groups")
_PORTS = "requested_resources"


def read_server_request(
    scheduler: SchedulerClient, arguments: argparse.Namespace, uuid: str
) -> tuple[Json, list[str]]:
    """Return a server's request and remarks, or raise :class:`NotFound`."""
    spec = None
    if scheduler.is_local and not find_cloud_source(arguments):
        settings = read_command_settings(arguments)
        if is_explicit(settings.conf, "api_database", "connection"):
            with closing(get_api_database(settings)) as database, database.read() as connection:
                spec = map_request_specs(connection, [uuid]).get(uuid)
    try:
        record = scheduler.get("instances", uuid)
    except NotFound:
        record = None
    host = record and record["host"]
    if spec is not None:
        document, remarks = _build_from_nova(scheduler, uuid, read_request_spec(spec), record or {})
    elif record is not None:
        document, remarks = _build_from_record(record)
    else:
        arguments.wrong_input = 2
        source = "name nova.conf with --config-file to read nova's request specs"
        if not scheduler.is_local:
            source = "read nova's request specs: placement-sched explain --config-file nova.conf"
        raise NotFound(f"--server: there is no server {uuid}. Check the uuid, or {source}")
    if host:
        remarks.append(f"Server {uuid} is on {host}: its own allocations count as used there")
    return {**document, "instance_uuids": [uuid]}, remarks


def _build_from_nova(
    scheduler: SchedulerClient, uuid: str, stored: Json, record: Json
) -> tuple[Json, list[str]]:
    document = {name: value for name, value in stored.items() if name not in _DROPPED}
    lost = ["networks", "requested destination", "ignored hosts"]
    request = record.get("request") or {}
    if _PORTS in request:
        document[_PORTS] = request[_PORTS]
    else:
        lost.insert(1, "port resources")
    source = f"Request of server {uuid}: nova's request spec. Nova does not keep its "
    remarks = [source + join_words(lost)]
    if group := document.get("instance_group"):
        # Nova stores a group without members. The recorded group has them.
        if scheduler.has_server_group(group["uuid"]):
            document["instance_group"] = group["uuid"]
        else:
            remarks.append(
                f"The members of server group {group['uuid']} are unknown. Run placement-sched "
                "nova sync"
            )
    return document, remarks


def _build_from_record(record: Json) -> tuple[Json, list[str]]:
    request = record.pop("request", None)
    instance = Instance(**record)
    document = build_request_document(instance, request)
    if instance.server_group is not None:
        document["instance_group"] = instance.server_group
    unknown = {fact: [instance.uuid] for fact in find_unknown_facts(instance, request)}
    remarks = [f"Request of server {instance.uuid}: its record"]
    remarks += (text[0].upper() + text[1:] for text in describe_unknown_facts(unknown))
    return document, remarks
