# SPDX-License-Identifier: Apache-2.0
"""Explanations of a run: its funnel, and a verdict on each named host."""
