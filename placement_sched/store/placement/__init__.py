# SPDX-License-Identifier: Apache-2.0
"""Resource providers and their data, by the nouns of the placement API."""
