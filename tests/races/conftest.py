# SPDX-License-Identifier: Apache-2.0
"""The fixture that starts a server, shared with the tests of the command line."""

from tests.cli.conftest import serve

__all__ = ["serve"]
