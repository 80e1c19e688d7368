"""A whole cloud as one readable file: written from a database, and read into one."""
