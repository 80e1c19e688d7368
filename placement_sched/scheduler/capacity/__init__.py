"""Capacity: how many more instances of a request fit, and what stops each host.

The number is what ``select_destinations`` would place, one instance after the other, until the
first ``no_valid_host``; nothing is claimed. See ``counting.py`` for the steps.
"""
