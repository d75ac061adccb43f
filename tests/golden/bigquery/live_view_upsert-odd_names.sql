-- The last staged record of each key decides: a delete hides the row, anything else stands in its place.
WITH
-- where the table stands, if it is still the one that this text was made for
`_tidegate_position` AS (
  SELECT
    JSON_VALUE(properties, '$."tidegate.shop.position"') AS offsets,
    CAST(JSON_VALUE(properties, '$."tidegate.shop.batch"') AS INT64) AS batch
  FROM `my-project`.`shop`.`orders_tidegate_position`
  WHERE pipeline = 'shop' AND JSON_VALUE(properties, '$.table') = 'f5d5e0c5-0000-4000-8000-000000000000'
),
-- complete attempts that this text can read: each has a mark. Of a number that two runs staged at once, merges take the last.
`_tidegate_attempts` AS (
  SELECT batch, attempt, begins, ends FROM (
    SELECT
      batch_number AS batch, JSON_VALUE(topic, '$.attempt') AS attempt, JSON_VALUE(topic, '$.start') AS begins, JSON_VALUE(topic, '$.end') AS ends,
      JSON_VALUE(topic, '$.shape') AS shape, COALESCE(JSON_VALUE(topic, '$.table_uuid'), 'f5d5e0c5-0000-4000-8000-000000000000') AS table_uuid
    FROM `my-project`.`my shop`.`or\`ders_shop_tmp`
    WHERE op = 'bad' AND attempt IS NULL
    QUALIFY ROW_NUMBER() OVER (PARTITION BY batch_number ORDER BY CAST(JSON_VALUE(topic, '$.number') AS INT64) DESC) = 1
  )
  WHERE shape = '0123456789ab' AND table_uuid = 'f5d5e0c5-0000-4000-8000-000000000000'
),
-- those that are not published, and continue from the position without a gap; partitions that it does not have may join
`_tidegate_batches` AS (
  SELECT live_batch, live_attempt FROM (
    SELECT batch AS live_batch, attempt AS live_attempt, LOGICAL_AND(continues) OVER (ORDER BY batch) AS is_next
    FROM (
      -- the texts are equal for equal offsets, and a topic's new partitions stand behind those that it had
      SELECT batch, attempt, before IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM UNNEST(REGEXP_EXTRACT_ALL(before, r'"[^"]+":\{[^}]*')) AS parts
        WHERE STRPOS(begins, CONCAT(parts, '}')) = 0 AND STRPOS(begins, CONCAT(parts, ',')) = 0
      ) AS continues
      FROM (
        SELECT a.*, COALESCE(LAG(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before
        FROM `_tidegate_position` AS p
        JOIN `_tidegate_attempts` AS a ON a.batch > p.batch
      )
    )
  )
  WHERE is_next
),
`_tidegate_changes` AS (
  SELECT *, TRUE AS `_tidegate_is_change` FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`order id` AS `order id`,
        key.`select` AS `select`,
        value.`a\`b` AS `a\`b`,
        value.`c.d` AS `c.d`,
        value.`größe` AS `größe`,
        value.`it's` AS `it's`,
        value.`名前` AS `名前`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`my shop`.`or\`ders_shop_tmp` JOIN `_tidegate_batches` ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `order id`, `select`
  )
  )
)
SELECT t.`order id`, t.`select`, t.`a\`b`, t.`c.d`, t.`größe`, t.`it's`, t.`名前`
FROM `my-project`.`my shop`.`or\`ders` AS t
LEFT JOIN `_tidegate_changes` AS s ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHERE s.`_tidegate_is_change` IS NULL
UNION ALL
SELECT
  s.`order id` AS `order id`,
  s.`select` AS `select`,
  s.`a\`b` AS `a\`b`,
  s.`c.d` AS `c.d`,
  s.`größe` AS `größe`,
  s.`it's` AS `it's`,
  s.`名前` AS `名前`
FROM `_tidegate_changes` AS s
WHERE s.`_tidegate_op` <> 'd'
