# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether instances of failed hosts fit elsewhere.

``report.py`` answers a query. ``screen.py`` judges failures without a simulation.
"""
