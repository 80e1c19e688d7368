# SPDX-License-Identifier: Apache-2.0
"""Scheduler commands, which use a server or the configured database."""
