# SPDX-License-Identifier: Apache-2.0
"""The identity API: only the version document that OpenStack clients request."""
