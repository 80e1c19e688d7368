# SPDX-License-Identifier: Apache-2.0
"""Pages of the console, each in a module.

``VIEWS`` of a module maps paths below ``/console`` to views.
"""
