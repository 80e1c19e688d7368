# SPDX-License-Identifier: Apache-2.0
"""The scheduler: from a request to a selected and claimed host."""
