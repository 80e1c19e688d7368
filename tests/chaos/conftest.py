# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other tests: servers, and applications with a configuration."""

from tests.api.conftest import configured, configured_app
from tests.cli.conftest import serve

__all__ = ["configured", "configured_app", "serve"]
