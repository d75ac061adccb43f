-- A place in the log is one dead letter for each table: writing it again changes nothing, another attempt's takes over.
-- One that a person has discarded stays so.
-- A topic of the same name that was deleted is another log. Where a letter does not tell its topic's id, equal bytes do.
-- The batch's offsets are named, so that letters of others need not be read.
-- Columns are named, so that a table to which a later version has added one is written too.
MERGE INTO `lake`.`shop`.`tidegate_shop_dead_letters` t
USING (
  SELECT
    topic, partition, offset, timestamp, bad.key, bad.value, bad.headers, bad.stage, bad.class AS error_class, bad.message,
    batch_number AS batch, attempt, 'lake.shop.orders' AS `table`,
    current_timestamp() AS written_at, CAST(NULL AS TIMESTAMP) AS replayed_at,
    CASE topic WHEN 'orders' THEN 'o-1' END AS topic_id, CAST(NULL AS STRING) AS replayed_by
  FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
  WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op = 'bad'
) s
ON t.`table` = 'lake.shop.orders' AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
AND (t.topic_id = s.topic_id OR ((t.topic_id IS NULL OR s.topic_id IS NULL) AND t.timestamp = s.timestamp AND t.key <=> s.key AND t.value <=> s.value)) AND (
  (t.topic = 'orders' AND t.partition = 0 AND t.offset >= 5 AND t.offset < 9)
)
WHEN MATCHED AND t.attempt <> s.attempt AND t.stage <> 'discarded' THEN UPDATE SET
  t.`topic` = s.`topic`,
  t.`partition` = s.`partition`,
  t.`offset` = s.`offset`,
  t.`timestamp` = s.`timestamp`,
  t.`key` = s.`key`,
  t.`value` = s.`value`,
  t.`headers` = s.`headers`,
  t.`stage` = s.`stage`,
  t.`error_class` = s.`error_class`,
  t.`message` = s.`message`,
  t.`batch` = s.`batch`,
  t.`attempt` = s.`attempt`,
  t.`table` = s.`table`,
  t.`written_at` = s.`written_at`,
  t.`replayed_at` = s.`replayed_at`,
  t.`topic_id` = s.`topic_id`,
  t.`replayed_by` = s.`replayed_by`
WHEN NOT MATCHED THEN INSERT (`topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers`, `stage`, `error_class`, `message`, `batch`, `attempt`, `table`, `written_at`, `replayed_at`, `topic_id`, `replayed_by`)
VALUES (s.`topic`, s.`partition`, s.`offset`, s.`timestamp`, s.`key`, s.`value`, s.`headers`, s.`stage`, s.`error_class`, s.`message`, s.`batch`, s.`attempt`, s.`table`, s.`written_at`, s.`replayed_at`, s.`topic_id`, s.`replayed_by`)
