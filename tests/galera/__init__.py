# SPDX-License-Identifier: Apache-2.0
"""A service on a Galera cluster: three nodes on loopback, which all are written through."""
