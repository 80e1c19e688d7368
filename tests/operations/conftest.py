# SPDX-License-Identifier: Apache-2.0
"""Fixture that runs a command."""

from tests.cli.conftest import run_command

__all__ = ["run_command"]
