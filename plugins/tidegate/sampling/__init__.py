"""From sampled records to a proposed pipeline file: format, key, columns with types, and what a sample cannot tell."""
