# SPDX-License-Identifier: Apache-2.0
"""Server groups and their members in nova's API database."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select

from placement_sched.db import sql
from placement_sched.model.aggregates import MAX_SERVER_PER_HOST, ServerGroup
from placement_sched.nova.databases import aggregates
from placement_sched.nova.databases.aggregates import TablesFingerprint
from placement_sched.nova.databases.tables import (
    instance_group_member,
    instance_group_policy,
    instance_groups,
)
from placement_sched.schemas.formats import DocumentError

_GROUPS = instance_groups.c
_MEMBERS = instance_group_member.c
_POLICIES = instance_group_policy.c
_DIGITS = re.compile("[0-9]{1,9}")


def fingerprint(connection: Connection) -> TablesFingerprint:
    """Return a fingerprint that changes with groups, their policies and their rules."""
    return aggregates.fingerprint(connection, (instance_groups, instance_group_policy))


def groups(connection: Connection) -> Mapping[str, ServerGroup | DocumentError]:
    """Map uuids to all groups, oldest first, or to the error of an unreadable group."""
    query = select(_POLICIES.group_id, _POLICIES.policy, _POLICIES.rules).order_by(_POLICIES.id)
    policies: dict[int, tuple[str, str | None]] = {}
    for group_id, policy, rules in connection.execute(query):
        # Nova uses the first of several policies.
        policies.setdefault(group_id, (policy, rules))
    columns = (_GROUPS.id, _GROUPS.uuid, _GROUPS.name, _GROUPS.project_id, _GROUPS.user_id)
    groups_by_uuid: dict[str, ServerGroup | DocumentError] = {}
    for row in connection.execute(select(*columns).order_by(_GROUPS.id)).all():
        try:
            groups_by_uuid[row.uuid] = _group(row, *policies.get(row.id, (None, None)))
        except DocumentError as error:
            groups_by_uuid[row.uuid] = error
    return groups_by_uuid


def newest_member(connection: Connection) -> int:
    """Return the highest id of a membership, or 0 if there are none."""
    newest = connection.scalar(select(_MEMBERS.id).order_by(_MEMBERS.id.desc()).limit(1))
    return int(newest or 0)


def members_since(connection: Connection, member_id: int) -> tuple[str, ...]:
    """Return the instances that joined a group after membership ``member_id``."""
    query = select(_MEMBERS.instance_uuid).where(_MEMBERS.id > member_id)
    return tuple(connection.scalars(query))


def groups_of(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances in a group to the uuid of their group."""
    query = select(_MEMBERS.instance_uuid, _GROUPS.uuid).order_by(_MEMBERS.id)
    query = query.join(instance_groups, _GROUPS.id == _MEMBERS.group_id)
    return dict(map(tuple, sql.select_in_batches(connection, query, _MEMBERS.instance_uuid, uuids)))


def _group(row: Any, policy: str | None, rules: str | None) -> ServerGroup:
    if not policy:
        raise DocumentError("it has no policy")
    return ServerGroup(
        uuid=row.uuid,
        name=row.name or "",
        project_id=row.project_id,
        user_id=row.user_id,
        policy=policy,
        rules=_rules(rules),
    )


def _rules(text: str | None) -> dict[str, int]:
    """Parse the rules of a group from JSON, with integers or digits as values."""
    if not text:
        return {}
    try:
        rules = orjson.loads(text)
    except ValueError:
        raise DocumentError("its rules are not JSON", "rules") from None
    max_per_host = rules.get(MAX_SERVER_PER_HOST) if isinstance(rules, dict) else None
    if max_per_host is None:
        return {}
    if not _DIGITS.fullmatch(str(max_per_host)):
        raise DocumentError(
            f"{max_per_host!r} is not a number of servers", "rules", MAX_SERVER_PER_HOST
        )
    return {MAX_SERVER_PER_HOST: int(max_per_host)}
