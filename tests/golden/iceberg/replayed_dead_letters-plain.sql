-- What is staged as bad again stays, with today's reason; every other dead letter of these offsets has been read.
MERGE INTO `lake`.`shop`.`tidegate_shop_dead_letters` t
USING (
  SELECT topic, partition, offset, bad.stage, bad.class AS error_class, bad.message
  FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
  WHERE batch_number = 7 AND attempt = '0af3' AND op = 'bad'
) s
ON t.`table` = 'lake.shop.orders' AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
WHEN MATCHED THEN UPDATE SET t.stage = s.stage, t.error_class = s.error_class, t.message = s.message
WHEN NOT MATCHED BY SOURCE AND t.`table` = 'lake.shop.orders' AND t.replayed_at IS NULL AND (
  (t.topic = 'orders' AND t.partition = 0 AND t.offset >= 5 AND t.offset < 9)
  OR (t.topic = 'it\'s' AND t.partition = 1 AND t.offset >= 0 AND t.offset < 7)
) THEN UPDATE SET t.replayed_at = current_timestamp()
