-- How many of the rows that the batch writes break the condition; NULL breaks it too.
SELECT count(1) FROM (
  SELECT * FROM (
    SELECT *,
      max(CASE WHEN `_tidegate_op` = 'd' THEN struct(`_tidegate_offset`, `_tidegate_i`) END) OVER (
        PARTITION BY `id`
      ) AS `_tidegate_last_delete`
    FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_last_delete` IS NULL
     OR struct(`_tidegate_offset`, `_tidegate_i`) >= `_tidegate_last_delete`
)
WHERE `_tidegate_op` <> 'd' AND NOT coalesce((
amount > 0 -- or not
), false)
