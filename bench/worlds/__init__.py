# SPDX-License-Identifier: Apache-2.0
"""Reproducible clouds to measure on: the same seed and size make the same rows, in any database.

A world of a smaller size is the beginning of a larger one of the same seed.
"""
