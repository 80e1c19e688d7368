# SPDX-License-Identifier: Apache-2.0
"""Capacity: the number of further instances that fit."""
