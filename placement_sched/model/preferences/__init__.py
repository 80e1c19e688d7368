# SPDX-License-Identifier: Apache-2.0
"""Preferences of requests, and the spread of server groups over failure domains."""
