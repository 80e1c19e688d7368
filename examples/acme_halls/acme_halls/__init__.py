# SPDX-License-Identifier: Apache-2.0
"""Where instances go in the halls of Acme's data centre: each hall is a host aggregate."""
