# SPDX-License-Identifier: Apache-2.0
"""SQL statements about the resources of the Placement API."""
