-- What another attempt at these offsets could not read, and this one has read or set aside itself.
DELETE FROM `my-project`.`shop`.`tidegate_shop_dead_letters`
WHERE `table` = 'lake.shop.orders' AND attempt <> '0af3' AND (
  (topic = 'orders' AND `partition` = 0 AND `offset` >= 5 AND `offset` < 9)
  OR (topic = 'it\'s' AND `partition` = 1 AND `offset` >= 0 AND `offset` < 7)
)
