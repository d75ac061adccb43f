-- Each staged record is a row beside those of the table.
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
      SELECT
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp` JOIN `_tidegate_batches` ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
  )
)
SELECT t.`name`, t.`amount`, t.`note`
FROM `my-project`.`shop`.`orders` AS t
UNION ALL
SELECT
  s.`name` AS `name`,
  s.`amount` AS `amount`,
  NULL AS `note`
FROM `_tidegate_changes` AS s
WHERE s.`_tidegate_op` <> 'd'
