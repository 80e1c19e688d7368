# SPDX-License-Identifier: Apache-2.0
"""Scheduler API: nodes, instances, scheduling, decisions and capacity."""
