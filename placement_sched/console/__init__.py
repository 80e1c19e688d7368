"""Pages: what the APIs answer, as pictures and tables in HTML."""
