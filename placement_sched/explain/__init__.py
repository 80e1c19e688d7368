# SPDX-License-Identifier: Apache-2.0
"""Explanations: why hosts are rejected, as values, and the sentences about them."""
