# SPDX-License-Identifier: Apache-2.0
"""Search for allocation candidates, with its provider cache and explanations."""
