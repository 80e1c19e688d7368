# SPDX-License-Identifier: Apache-2.0
"""Sync of this service's records with nova's databases."""
