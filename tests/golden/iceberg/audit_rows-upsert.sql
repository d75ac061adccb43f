-- How many of the rows that the batch writes break the condition; NULL breaks it too.
SELECT count(1) FROM (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `id`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
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
  WHERE `_tidegate_rank` = 1
)
WHERE `_tidegate_op` <> 'd' AND NOT coalesce((
amount > 0 -- or not
), false)
