# SPDX-License-Identifier: Apache-2.0
"""Applications on new databases, and the command line."""

from functools import partial

import pytest

from tests.cli.conftest import run_cli as run_cli  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_command as run_command  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.cli.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.plan_moves import make_app_on_new_database
from tests.scheduler.conftest import make_shared_app as make_shared_app  # noqa: PLC0414 - a fixture


@pytest.fixture
def make_new_app(make_app, sqlite_template, tmp_path):
    """Return a function that makes an application on a new database."""
    # Without a budget, the count does not depend on the speed of the machine.
    make = partial(make_app_on_new_database, make_app, sqlite_template, tmp_path)
    return partial(make, scheduler__capacity_budget=0)
