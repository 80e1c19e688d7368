# SPDX-License-Identifier: Apache-2.0
"""The command line in this process, and empty clouds."""

from tests.cli.conftest import run_cli as run_cli  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_command as run_command  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.cli.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.operations.fleet.conftest import empty_cloud as empty_cloud  # noqa: PLC0414 - a fixture
