# SPDX-License-Identifier: Apache-2.0
"""Frozen values and pure rules of the domain, without I/O."""
