-- What is staged as bad again stays, with today's reason; every other dead letter of these offsets has been read.
-- One that a person has discarded meanwhile stays discarded.
MERGE INTO `lake`.`shop`.`tidegate_shop_dead_letters` t
USING (
  SELECT topic, partition, offset, bad.stage, bad.class AS error_class, bad.message,
    CASE topic WHEN 'orders' THEN 'o-1' END AS topic_id
  FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
  WHERE batch_number = 7 AND attempt = '0af3' AND op = 'bad'
) s
ON t.`table` = 'lake.shop.orders' AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
AND (t.topic_id = s.topic_id OR (t.topic_id IS NULL AND s.topic_id IS NULL))
WHEN MATCHED AND t.replayed_at IS NULL THEN UPDATE SET t.stage = s.stage, t.error_class = s.error_class, t.message = s.message
WHEN NOT MATCHED BY SOURCE AND t.`table` = 'lake.shop.orders' AND t.replayed_at IS NULL AND (
  (t.topic = 'orders' AND t.partition = 0 AND t.offset >= 5 AND t.offset < 9 AND t.topic_id = 'o-1')
  OR (t.topic = 'it\'s' AND t.partition = 1 AND t.offset >= 0 AND t.offset < 7 AND t.topic_id IS NULL)
) THEN UPDATE SET t.replayed_at = current_timestamp(), t.replayed_by = '0af3'
