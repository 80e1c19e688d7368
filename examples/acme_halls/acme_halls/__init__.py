# SPDX-License-Identifier: Apache-2.0
"""Scheduler plugins for the halls of Acme's data centre, which are host aggregates."""
