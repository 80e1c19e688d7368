# SPDX-License-Identifier: Apache-2.0
"""HTTP APIs: parsing of requests, calls of operations, and responses."""
