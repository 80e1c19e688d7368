# SPDX-License-Identifier: Apache-2.0
"""Command line: a thin module per command group."""
