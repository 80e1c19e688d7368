# SPDX-License-Identifier: Apache-2.0
"""All SQL by noun: takes a connection, returns model values, never commits."""
