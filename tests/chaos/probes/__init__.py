# SPDX-License-Identifier: Apache-2.0
"""Hostile requests: huge, malformed or ambiguous."""
