# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether the instances of failed hosts find places on other hosts.

``report.py`` has the query and its answer. The other modules are its steps.
"""
