# SPDX-License-Identifier: Apache-2.0
"""Search for allocation candidates, its cache and explanations."""
