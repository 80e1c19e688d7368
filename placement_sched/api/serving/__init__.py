"""Between an HTTP server and the application: bodies, threads, and what the log says."""
