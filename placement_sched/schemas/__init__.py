"""JSON Schemas of the documents of APIs, reports and files."""
