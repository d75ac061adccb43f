"""YAML files read into specs, or everything that is wrong with them, with file and line."""
