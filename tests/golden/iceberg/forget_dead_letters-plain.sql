-- What attempts at these offsets could not read that were never published: this one has read it or set it aside itself.
-- A letter of another topic of the same name, deleted since, is none of them.
DELETE FROM `lake`.`shop`.`tidegate_shop_dead_letters`
WHERE `table` = 'lake.shop.orders' AND attempt <> '0af3' AND batch > 6 AND (
  (topic = 'orders' AND partition = 0 AND offset >= 5 AND offset < 9 AND (topic_id IS NULL OR topic_id = 'o-1'))
  OR (topic = 'it\'s' AND partition = 1 AND offset >= 0 AND offset < 7)
)
