-- How many records are bad today that no dead letter names: the table may have their rows.
SELECT count(*) FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 42 r
WHERE batch_number = 1 AND attempt = '0af3' AND op = 'bad' AND bad.stage IN ('key', 'value') AND NOT EXISTS (
  SELECT 1 FROM `lake`.`shop`.`l` VERSION AS OF 78 l
  WHERE l.`table` = 'lake.shop.orders' AND l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset AND l.replayed_by IS NULL
    AND NOT coalesce(topic_id <> CAST(NULL AS STRING), false)
)
