-- Each staged record is a row beside those of the table, and a delete removes its key's earlier rows.
WITH
-- where the table stands, if it is still the one that this text was made for
`_tidegate_position` AS (
  SELECT
    JSON_VALUE(properties, '$."tidegate.shop.position"') AS offsets,
    CAST(JSON_VALUE(properties, '$."tidegate.shop.batch"') AS INT64) AS batch
  FROM `my-project`.`shop`.`orders_tidegate_position`
  WHERE pipeline = 'shop' AND JSON_VALUE(properties, '$.table') = 'f5d5e0c5-0000-4000-8000-000000000000'
),
-- complete attempts that this text can read: each has a mark
`_tidegate_attempts` AS (
  SELECT DISTINCT
    batch_number AS batch, JSON_VALUE(topic, '$.attempt') AS attempt, JSON_VALUE(topic, '$.start') AS begins, JSON_VALUE(topic, '$.end') AS ends
  FROM `my-project`.`shop`.`orders_shop_tmp`
  WHERE op = 'bad' AND attempt IS NULL AND JSON_VALUE(topic, '$.shape') = '0123456789ab'
    AND COALESCE(JSON_VALUE(topic, '$.table_uuid'), 'f5d5e0c5-0000-4000-8000-000000000000') = 'f5d5e0c5-0000-4000-8000-000000000000'
),
-- those that are not published, and continue from the position without a gap
`_tidegate_batches` AS (
  SELECT live_batch, live_attempt FROM (
    SELECT batch AS live_batch, attempt AS live_attempt, LOGICAL_AND(COALESCE(begins = before, FALSE)) OVER (ORDER BY batch) AS is_next
    FROM (
      SELECT a.*, COALESCE(LAG(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before
      FROM `_tidegate_position` AS p
      JOIN `_tidegate_attempts` AS a ON a.batch > p.batch
    )
  )
  WHERE is_next
),
`_tidegate_changes` AS (
  SELECT *, TRUE AS `_tidegate_is_change` FROM (
  SELECT * FROM (
    SELECT *,
      COUNTIF(`_tidegate_op` = 'd') OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_tidegate_later_deletes`
    FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp` JOIN `_tidegate_batches` ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
    )
  )
  WHERE `_tidegate_later_deletes` = 0
  )
)
SELECT t.`id`, t.`name`, t.`amount`
FROM `my-project`.`shop`.`orders` AS t
LEFT JOIN `_tidegate_changes` AS s ON s.`_tidegate_op` = 'd' AND (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE s.`_tidegate_is_change` IS NULL
UNION ALL
SELECT
  s.`id` AS `id`,
  s.`name` AS `name`,
  s.`amount` AS `amount`
FROM `_tidegate_changes` AS s
WHERE s.`_tidegate_op` <> 'd'
