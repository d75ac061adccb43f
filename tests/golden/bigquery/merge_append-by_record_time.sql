-- Every record is a row.
INSERT INTO `my-project`.`shop`.`orders` (`id`, `name`, `amount`, _PARTITIONTIME)
SELECT `id`, `name`, `amount`, TIMESTAMP_TRUNC(`_tidegate_partition_time`, DAY, 'UTC')
FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        LEAST(GREATEST(partition_time, TIMESTAMP '1960-01-01 00:00:00+00:00'), TIMESTAMP '2159-12-31 23:00:00+00:00') AS `_tidegate_partition_time`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
)
WHERE `_tidegate_op` <> 'd'
