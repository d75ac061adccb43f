-- A place in the log is one dead letter for each table: writing it again changes nothing, another attempt's takes over.
-- A topic of the same name that was deleted is another log. Where a letter does not tell its topic's id, equal bytes do.
-- The batch's offsets are named, so that letters of others need not be read.
MERGE INTO `lake`.`my shop`.`d``l` t
USING (
  SELECT
    topic, partition, offset, timestamp, bad.key, bad.value, bad.headers, bad.stage, bad.class AS error_class, bad.message,
    batch_number AS batch, attempt, 'lake.my shop.it\'s' AS `table`,
    current_timestamp() AS written_at, CAST(NULL AS TIMESTAMP) AS replayed_at,
    CASE topic WHEN 'orders' THEN 'o-1' END AS topic_id, CAST(NULL AS STRING) AS replayed_by
  FROM `lake`.`my shop`.`it's_shop_tmp` VERSION AS OF 8154213786245100123
  WHERE batch_number = 7 AND attempt = '0af3' AND op = 'bad'
) s
ON t.`table` = 'lake.my shop.it\'s' AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
AND (t.topic_id = s.topic_id OR ((t.topic_id IS NULL OR s.topic_id IS NULL) AND t.timestamp = s.timestamp AND t.key <=> s.key AND t.value <=> s.value)) AND (
  (t.topic = 'orders' AND t.partition = 0 AND t.offset >= 5 AND t.offset < 9)
  OR (t.topic = 'it\'s' AND t.offset >= 0 AND t.offset < 7)
)
WHEN MATCHED AND t.attempt <> s.attempt THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *
