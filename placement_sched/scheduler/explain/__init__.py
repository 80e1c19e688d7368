# SPDX-License-Identifier: Apache-2.0
"""Explanations of a run: the funnel of its stages, and verdicts on single hosts."""
