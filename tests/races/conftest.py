# SPDX-License-Identifier: Apache-2.0
"""The server of the races, started as its users start it."""

from tests.cli.conftest import serve

__all__ = ["serve"]
