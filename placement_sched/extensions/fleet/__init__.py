# SPDX-License-Identifier: Apache-2.0
"""Sample clouds and fleet files."""
