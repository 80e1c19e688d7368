# SPDX-License-Identifier: Apache-2.0
"""Frozen values and pure rules, without I/O."""
