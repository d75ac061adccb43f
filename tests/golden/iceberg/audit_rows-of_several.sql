-- How many of the rows that the batch writes break the condition; NULL breaks it too.
SELECT count(1) FROM (
  SELECT t.* FROM `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t LEFT SEMI JOIN (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
  ) s ON t.`id` <=> s.`id`
)
WHERE NOT coalesce((
amount > 0
), false)
