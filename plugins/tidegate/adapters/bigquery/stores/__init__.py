"""The tables and files that tidegate itself keeps in BigQuery and its bucket, under the same names as Iceberg's."""
