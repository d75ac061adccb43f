"""The keys of each YAML file with their defaults, as pydantic models."""
