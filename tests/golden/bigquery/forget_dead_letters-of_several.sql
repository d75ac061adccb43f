-- What attempts at these offsets could not read that were never published: this one has read it or set it aside itself.
-- A letter of another topic of the same name, deleted since, is none of them.
DELETE FROM `my-project`.`shop`.`tidegate_shop_dead_letters`
WHERE `table` = 'lake.shop.orders' AND attempt NOT IN ('0ae2', 'it\'s') AND batch > 5 AND (
  (topic = 'orders' AND `partition` = 0 AND `offset` >= 5 AND `offset` < 9 AND (topic_id IS NULL OR topic_id = 'o-1'))
)
