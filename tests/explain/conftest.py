# SPDX-License-Identifier: Apache-2.0
"""Fixtures of explanations."""

from tests.candidates.conftest import clock, with_and_without_provider_cache

__all__ = ["clock", "with_and_without_provider_cache"]
