# SPDX-License-Identifier: Apache-2.0
"""Recorded reports of compute nodes, their providers and their services."""

from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.operations import reports
from placement_sched.operations.services import ServiceChange, update_by_name
from placement_sched.store.placement import resource_providers, traits
from tests.support.reports import NOW, node_uuid

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


def record_report(database, settings, *documents, now=NOW):
    parsed = reports.parse_reports(documents, settings, now)
    return database.write(lambda connection: reports.record_reports(connection, parsed, now))


def read_provider(database, number=1):
    with database.read() as connection:
        return resource_providers.map_by_uuid(connection, [node_uuid(number)]).get(
            node_uuid(number)
        )


def read_traits(database, number=1):
    with database.read() as connection:
        rows = traits.get_provider_traits(connection, node_uuid(number)).traits
    return {trait.name for trait in rows}


def set_service_fields(connection, host, now=NOW, **changed):
    update_by_name(connection, host, COMPUTE_BINARY, ServiceChange(**changed), now)


def disable_service(connection, host, reason=None, now=NOW):
    set_service_fields(connection, host, now, disabled=True, reason=reason)
