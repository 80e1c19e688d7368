"""Fleet files: a whole cloud as a readable YAML file."""
