# SPDX-License-Identifier: Apache-2.0
"""Capacity of a request: how many further instances fit, and limits.

``select_destinations`` would place this number of instances, each with a request of its own,
before the first ``no_valid_host``. Nothing is claimed. ``count.py`` lists the steps of the count.
"""
