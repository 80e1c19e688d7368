# SPDX-License-Identifier: Apache-2.0
"""Command line, with a thin module per group of commands."""
