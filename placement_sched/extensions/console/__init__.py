# SPDX-License-Identifier: Apache-2.0
"""Web console: HTML pages on top of the APIs."""
