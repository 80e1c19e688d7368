# SPDX-License-Identifier: Apache-2.0
"""Modules of nova for third-party plugins.

``[filter_scheduler] nova_shim`` enables them. ``finder`` makes them importable. The other modules
implement the parts that have no counterpart elsewhere in this service. Nothing here is nova's code:
names and meaning follow nova's public documentation, and the plugins in public repositories.
"""
