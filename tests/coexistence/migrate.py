# SPDX-License-Identifier: Apache-2.0
"""Upgrade a database to a revision of OpenStack placement with its own migrations."""

import os
import sys

from oslo_config import cfg
from placement import conf, db_api
from placement.db.sqlalchemy import migration


def main():
    _, url, revision = sys.argv
    os.environ["OS_PLACEMENT_DATABASE__CONNECTION"] = url
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config([], project="placement", default_config_files=[])
    db_api.configure(config)
    migration.upgrade(revision)


if __name__ == "__main__":
    main()
