# SPDX-License-Identifier: Apache-2.0
"""Upgrades a database to a revision of nova's schema with nova's migrations."""

import sys
from contextlib import suppress
from importlib import import_module

from nova import conf
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database


def main():
    _, kind, url, revision = sys.argv
    options = conf.CONF
    options([], project="nova", default_config_files=[])
    # nova reads these options if osprofiler is installed, as with keystone.
    with suppress(ImportError):
        import_module("osprofiler.opts").set_defaults(options)
    options.set_override("connection", url, "api_database")
    options.set_override("connection", url, "database")
    api_database.configure(options)
    main_database.configure(options)
    migration.db_sync(revision, database=kind)


if __name__ == "__main__":
    main()
