# SPDX-License-Identifier: Apache-2.0
"""Routes of the extension."""
