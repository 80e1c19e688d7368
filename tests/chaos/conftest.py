# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other tests: servers, and applications with a configuration."""

from tests.api.conftest import make_configured_app, make_configured_settings
from tests.cli.conftest import serve

__all__ = ["make_configured_app", "make_configured_settings", "serve"]
