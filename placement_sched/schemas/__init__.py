# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas for documents of APIs, reports and files."""
