# SPDX-License-Identifier: Apache-2.0
"""Scripts and parts of nova's processes, run with the peer environment's Python."""
