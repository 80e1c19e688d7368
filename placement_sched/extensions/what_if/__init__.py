# SPDX-License-Identifier: Apache-2.0
"""Capacity, failover capacity, plans and rebalancing."""
