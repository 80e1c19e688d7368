"""Capacity: how many more instances fit."""
