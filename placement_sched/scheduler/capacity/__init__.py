# SPDX-License-Identifier: Apache-2.0
"""Capacity: the number of further instances that fit, and limits.

The number is how many instances ``select_destinations`` would place before the first
``no_valid_host``. Nothing is claimed. ``count.py`` lists the steps.
"""
