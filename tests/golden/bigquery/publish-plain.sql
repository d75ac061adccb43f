CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders_deletes` (
  `id` INT64,
  `at` TIMESTAMP,
  `m` ARRAY<STRUCT<`key` STRING, `value` BIGNUMERIC(38, 18)>>
)
OPTIONS (labels = [('tidegate-kind', 'deletes'), ('tidegate-owner', '6d209f445b2d1839da3327b658432c9dc00bfcea'), ('tidegate-format', '1')]);

-- All or nothing: an error ends the script, and BigQuery rolls a transaction back that was not committed.
BEGIN TRANSACTION;

-- First of all the position: who is too late, or meets another publish, ends here and has read nothing.
UPDATE `my-project`.`shop`.`orders_tidegate_position`
SET version = 7, attempt = '0af3', properties = '{"tidegate.shop.batch": "7", "tidegate.shop.position": "{\\"orders\\": {\\"0\\": 900}}"}', changed = CURRENT_TIMESTAMP()
WHERE pipeline = 'shop' AND version = 6;

ASSERT (
  SELECT COUNT(*) FROM `my-project`.`shop`.`orders_tidegate_position`
  WHERE pipeline = 'shop' AND version = 7 AND attempt = '0af3'
) = 1 AS 'tidegate: the position has moved: pipeline=shop version=6';

-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `id`
  )
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`);

ASSERT (
-- How many of the rows that the batch has written break the condition; NULL breaks it too.
SELECT COUNT(*) FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `id`
  )
)
WHERE `_tidegate_op` <> 'd' AND NOT COALESCE((
amount > 0 -- or not
), FALSE)
) = 0 AS 'tidegate: an audit does not hold: 0: amount > 0';

COMMIT TRANSACTION;
