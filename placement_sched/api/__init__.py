# SPDX-License-Identifier: Apache-2.0
"""The HTTP APIs, which parse requests, call the scheduler and render answers."""
