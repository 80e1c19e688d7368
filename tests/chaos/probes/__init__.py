# SPDX-License-Identifier: Apache-2.0
"""Requests as no client sends them by mistake, and what the service makes of them."""
