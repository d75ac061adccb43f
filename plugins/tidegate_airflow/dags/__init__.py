"""One builder per DAG, with its form and its texts."""
