"""One BigQuery project through google-cloud-bigquery.

Named jobs, credentials, errors, and the files that load jobs read.
"""
