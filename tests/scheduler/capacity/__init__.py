# SPDX-License-Identifier: Apache-2.0
"""Capacity: how many more instances fit."""
