# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether instances of failed hosts fit elsewhere.

``report.py`` has the query and its answer. The other modules are its steps.
"""
