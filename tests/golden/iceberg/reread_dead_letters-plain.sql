-- What published batches set aside of these offsets of the same topic, and this attempt has read: kept, and marked.
-- What a replay has brought in of them is no longer the replay's: a rollback of that takes nothing away.
UPDATE `lake`.`shop`.`tidegate_shop_dead_letters` SET replayed_at = coalesce(replayed_at, current_timestamp()), replayed_by = NULL
WHERE `table` = 'lake.shop.orders' AND attempt <> '0af3' AND batch <= 6 AND (replayed_at IS NULL OR replayed_by IS NOT NULL) AND (
  (topic = 'orders' AND partition = 0 AND offset >= 5 AND offset < 9 AND topic_id = 'o-1')
  OR (topic = 'it\'s' AND partition = 1 AND offset >= 0 AND offset < 7 AND topic_id = 'i\'d')
)
