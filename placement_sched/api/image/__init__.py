# SPDX-License-Identifier: Apache-2.0
"""The image API: image metadata in glance's format."""
