# SPDX-License-Identifier: Apache-2.0
"""Pages of the console.

Each module has ``VIEWS``: its views by path below ``/console``.
"""
