-- What these replays have brought in, and a rollback of the destination has taken: it waits again.
UPDATE `lake`.`shop`.`tidegate_shop_dead_letters` SET replayed_at = CAST(NULL AS TIMESTAMP), replayed_by = CAST(NULL AS STRING)
WHERE `table` = 'lake.shop.orders' AND replayed_by IN ('0af3', 'it\'s')
