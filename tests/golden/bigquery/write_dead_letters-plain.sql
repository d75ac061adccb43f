-- A place in the log is one dead letter for each table: writing it again changes nothing, another attempt's takes over.
-- One that a person has discarded stays so.
-- A topic of the same name that was deleted is another log. Where a letter does not tell its topic's id, equal bytes do.
-- The batch's offsets are named, so that letters of others need not be read.
MERGE INTO `my-project`.`shop`.`tidegate_shop_dead_letters` AS t
USING (
  SELECT
    topic, `partition`, `offset`, `timestamp`, bad.key, bad.value, bad.headers, bad.stage, bad.class AS error_class, bad.message,
    batch_number AS batch, attempt, 'lake.shop.orders' AS `table`,
    CURRENT_TIMESTAMP() AS written_at, CAST(NULL AS TIMESTAMP) AS replayed_at,
    CASE topic WHEN 'orders' THEN 'o-1' END AS topic_id, CAST(NULL AS STRING) AS replayed_by
  FROM `my-project`.`shop`.`orders_shop_tmp`
  WHERE batch_number = 7 AND attempt = '0af3' AND op = 'bad'
) AS s
ON t.`table` = 'lake.shop.orders' AND t.topic = s.topic AND t.`partition` = s.`partition` AND t.`offset` = s.`offset`
AND (t.topic_id = s.topic_id OR ((t.topic_id IS NULL OR s.topic_id IS NULL) AND t.`timestamp` = s.`timestamp` AND t.key IS NOT DISTINCT FROM s.key AND t.value IS NOT DISTINCT FROM s.value)) AND (
  (t.topic = 'orders' AND t.`partition` = 0 AND t.`offset` >= 5 AND t.`offset` < 9)
)
WHEN MATCHED AND t.attempt <> s.attempt AND t.stage <> 'discarded' THEN UPDATE SET
  `topic` = s.`topic`,
  `partition` = s.`partition`,
  `offset` = s.`offset`,
  `timestamp` = s.`timestamp`,
  `key` = s.`key`,
  `value` = s.`value`,
  `headers` = s.`headers`,
  `stage` = s.`stage`,
  `error_class` = s.`error_class`,
  `message` = s.`message`,
  `batch` = s.`batch`,
  `attempt` = s.`attempt`,
  `table` = s.`table`,
  `written_at` = s.`written_at`,
  `replayed_at` = s.`replayed_at`,
  `topic_id` = s.`topic_id`,
  `replayed_by` = s.`replayed_by`
WHEN NOT MATCHED THEN INSERT (`topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers`, `stage`, `error_class`, `message`, `batch`, `attempt`, `table`, `written_at`, `replayed_at`, `topic_id`, `replayed_by`)
VALUES (s.`topic`, s.`partition`, s.`offset`, s.`timestamp`, s.`key`, s.`value`, s.`headers`, s.`stage`, s.`error_class`, s.`message`, s.`batch`, s.`attempt`, s.`table`, s.`written_at`, s.`replayed_at`, s.`topic_id`, s.`replayed_by`)
