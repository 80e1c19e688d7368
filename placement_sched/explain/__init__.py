# SPDX-License-Identifier: Apache-2.0
"""Explanations of rejected hosts, as values and as sentences."""
