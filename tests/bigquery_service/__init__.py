"""What only BigQuery itself can show, for those who have a project."""
