# SPDX-License-Identifier: Apache-2.0
"""Scripts for the Python of the peer environment."""
