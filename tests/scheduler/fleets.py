# SPDX-License-Identifier: Apache-2.0
"""Loading of fleet files."""

from webtest import TestApp

from placement_sched.model.clock import utcnow
from placement_sched.operations.fleet.load import load_file


def load_fleet(app: TestApp, text: str) -> TestApp:
    """Load a fleet file into the database of an application, and return the application."""
    services = app.app.services
    load_file(services.database, services.settings, utcnow, text, "fleet.yaml", dry_run=False)
    return app
