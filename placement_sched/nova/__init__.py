# SPDX-License-Identifier: Apache-2.0
"""Integration with an existing nova: RPC API and database sync."""
