# SPDX-License-Identifier: Apache-2.0
"""All SQL statements, in a module for each noun.

The functions take a connection, return model values, and never commit.
"""
