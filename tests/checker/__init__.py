# SPDX-License-Identifier: Apache-2.0
"""Checker of the scheduler's answers: a model of its own, and the HTTP APIs, nothing else.

A seed makes a small random cloud and requests for it. The checker compares the answers of
``explain``, ``capacity`` and ``select_destinations`` with the model, and carries out advice
through the APIs to see whether it helps. ``test_checker`` runs some seeds, and
``python -m tests.checker`` runs others against any service. No other module here imports the
product.
"""
