# SPDX-License-Identifier: Apache-2.0
"""Checks of the scheduler's answers, with a second model and the HTTP APIs only.

A seed makes a small random cloud and requests for it. The checker compares the answers of
``explain``, ``capacity`` and ``select_destinations`` with the model, and carries out advice through
the APIs to see whether it helps. ``test_checker`` runs some seeds, and ``python -m tests.checker``
runs others against any service.
"""
