# SPDX-License-Identifier: Apache-2.0
"""Fixture that runs a command."""

from tests.cli.conftest import run

__all__ = ["run"]
