# SPDX-License-Identifier: Apache-2.0
"""Violations: servers that the scheduler would not place on their hosts.

``report.py`` checks the servers. ``providers.py`` releases their claims in memory. ``task.py``
computes in the background.
"""
