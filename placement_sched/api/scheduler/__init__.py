# SPDX-License-Identifier: Apache-2.0
"""The scheduler API: compute nodes, instances, select_destinations and explain."""
