# SPDX-License-Identifier: Apache-2.0
"""Integration with an existing nova: scheduler RPC, database sync and shadow mode."""
