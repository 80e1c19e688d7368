# SPDX-License-Identifier: Apache-2.0
"""Checks of the scheduler's responses, with a reference search and the HTTP APIs only.

A seed makes a small random cloud and requests for it. The checker compares the responses of
``explain``, ``capacity`` and ``select_destinations`` with the hosts that the reference search of
``tests.candidates`` finds. It compares kind and values of every rejection of the search, and of
host filters that compare amounts, with ``expected_rejections``. It carries out advice through the
APIs to see whether it helps.

``test_random_clouds`` runs some seeds, and with ``pytest --lane all tests/checker`` more than 2 000
comparisons of values. ``python -m tests.checker`` runs others against any service.
"""
