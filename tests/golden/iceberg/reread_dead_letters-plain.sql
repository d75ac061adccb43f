-- What published batches set aside of these offsets of the same topic, and this attempt has read: kept, and marked.
UPDATE `lake`.`shop`.`tidegate_shop_dead_letters` SET replayed_at = current_timestamp()
WHERE `table` = 'lake.shop.orders' AND attempt <> '0af3' AND batch <= 6 AND replayed_at IS NULL AND (
  (topic = 'orders' AND partition = 0 AND offset >= 5 AND offset < 9 AND topic_id = 'o-1')
  OR (topic = 'it\'s' AND partition = 1 AND offset >= 0 AND offset < 7 AND topic_id = 'i\'d')
)
