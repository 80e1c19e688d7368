# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other test folders: servers, applications and a Galera cluster."""

from tests.api.conftest import make_configured_app, make_configured_settings
from tests.cli.conftest import serve
from tests.galera.conftest import (
    cluster,
    database_name,
    nodes,
    prepared_database_name,
    shared_cluster,
)

__all__ = [
    "cluster",
    "database_name",
    "make_configured_app",
    "make_configured_settings",
    "nodes",
    "prepared_database_name",
    "serve",
    "shared_cluster",
]
