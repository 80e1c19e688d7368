# SPDX-License-Identifier: Apache-2.0
"""Hosts, flavors and instances, by the nouns of the compute API."""
