# SPDX-License-Identifier: Apache-2.0
"""Records of operations that take many steps."""
