# SPDX-License-Identifier: Apache-2.0
"""Upgrades of an API database and a cell to revisions of nova's schemas."""

import sys
from contextlib import suppress
from importlib import import_module

from nova import conf
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database


def main():
    _, api, api_revision, cell, cell_revision = sys.argv
    options = conf.CONF
    options([], project="nova", default_config_files=[])
    # nova reads these options if osprofiler is installed, as with keystone.
    with suppress(ImportError):
        import_module("osprofiler.opts").set_defaults(options)
    options.set_override("connection", api, "api_database")
    options.set_override("connection", cell, "database")
    api_database.configure(options)
    main_database.configure(options)
    migration.db_sync(api_revision, database="api")
    migration.db_sync(cell_revision, database="main")


if __name__ == "__main__":
    main()
