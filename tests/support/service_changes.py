# SPDX-License-Identifier: Apache-2.0
"""Changes of compute services by host."""

from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.operations.services import ServiceChange, update_by_name
from tests.support.reports import NOW


def set_service_fields(connection, host, now=NOW, **changed):
    update_by_name(connection, host, COMPUTE_BINARY, ServiceChange(**changed), now)


def disable_service(connection, host, reason=None, now=NOW):
    set_service_fields(connection, host, now, disabled=True, reason=reason)


def enable_service(connection, host):
    set_service_fields(connection, host, disabled=False)
