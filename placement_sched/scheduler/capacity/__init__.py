# SPDX-License-Identifier: Apache-2.0
"""Capacity: the number of further instances of a request that fit, and the limits.

The number is what ``select_destinations`` would place, one instance after another, until the first
``no_valid_host``. Nothing is claimed. ``count.py`` lists the steps.
"""
