-- Where a pipeline begins in this table; what stood there for it before is another table's, and goes only as it was read.
MERGE INTO `my-project`.`shop`.`orders_tidegate_position` AS t
USING (SELECT 'shop' AS pipeline) AS s
ON t.pipeline = s.pipeline
WHEN MATCHED AND t.version = 5 THEN UPDATE SET version = 6, attempt = '', properties = '{}', changed = CURRENT_TIMESTAMP()
WHEN NOT MATCHED THEN INSERT (pipeline, version, attempt, properties, changed)
VALUES (s.pipeline, 6, '', '{}', CURRENT_TIMESTAMP())
