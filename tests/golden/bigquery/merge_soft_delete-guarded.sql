-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT s.* FROM (
    SELECT `_tidegate_row`.*, `_tidegate_ends_deleted` FROM (
      SELECT
        ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_op` = 'd', `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`,
        ARRAY_AGG(`_tidegate_op` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] = 'd' AS `_tidegate_ends_deleted`
      FROM (
      SELECT s.* FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS s
  LEFT JOIN (
    SELECT key.`id` AS `id`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp`
    WHERE batch_number > 7 AND op <> 'bad'
  ) AS t
  ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
  WHERE t.`_tidegate_is_later` IS NULL
      ) AS `_tidegate_record`
      GROUP BY `id`
    )
  ) AS s
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN UPDATE SET t.`_deleted` = TRUE
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`,
  t.`_deleted` = s.`_tidegate_ends_deleted`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`, `_deleted`)
VALUES (s.`id`, s.`name`, s.`amount`, s.`_tidegate_ends_deleted`)
