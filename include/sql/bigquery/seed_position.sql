-- Where a pipeline begins in this table; what stood there for it before is another table's, and goes only as it was read.
MERGE INTO {{ table | name }} AS t
USING (SELECT {{ pipeline | text }} AS pipeline) AS s
ON t.pipeline = s.pipeline
WHEN MATCHED AND t.version = {{ version - 1 }} THEN UPDATE SET version = {{ version }}, attempt = '', properties = {{ properties | text }}, changed = CURRENT_TIMESTAMP()
WHEN NOT MATCHED THEN INSERT (pipeline, version, attempt, properties, changed)
VALUES (s.pipeline, {{ version }}, '', {{ properties | text }}, CURRENT_TIMESTAMP())
