# SPDX-License-Identifier: Apache-2.0
"""Fleet files: a whole cloud as a readable YAML file."""
