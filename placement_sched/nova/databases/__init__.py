# SPDX-License-Identifier: Apache-2.0
"""Nova's API database and the databases of its cells, read with SQLAlchemy Core."""
