-- Dead letters that a person needs no more: they wait no longer, and say why.
UPDATE `lake`.`shop`.`tidegate_shop_dead_letters`
SET replayed_at = current_timestamp(), stage = 'discarded', message = concat('discarded by ann: it\'s a test; it was: ', message)
WHERE `table` = 'lake.shop.orders' AND replayed_at IS NULL AND (
  (topic = 'orders' AND partition = 0
    AND topic_id = 'o-1' AND offset IN (5, 7, 8))
  OR (topic = 'it\'s' AND partition = 1
    AND topic_id IS NULL AND offset IN (0))
)
