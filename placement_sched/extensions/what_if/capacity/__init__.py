# SPDX-License-Identifier: Apache-2.0
"""Capacity of a request: how many further instances fit, and limits.

The number is how many instances ``select_destinations`` would place before the first
``no_valid_host``. Nothing is claimed. ``count.py`` lists the steps of the count.
"""
