# SPDX-License-Identifier: Apache-2.0
"""Allocation candidate search."""
