-- A staged record counts if its sequence is not lower than any before it, nor than that of the row and of a remembered delete.
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
    FROM `my-project`.`shop`.`orders_shop_tmp`
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
  SELECT s.*,
    s.`_tidegate_reset` IS NOT NULL AS `_tidegate_is_reset`,
    COALESCE(s.`_tidegate_last`.op = 'd', TRUE) OR COALESCE(s.`_tidegate_reset`.place > s.`_tidegate_last`.place, FALSE) AS `_tidegate_ends_deleted`,
    IF(s.`_tidegate_is_row`, s.`_tidegate_sequence`, NULL) AS `_tidegate_row_sequence`,
    s.`_tidegate_last`.sequence AS `_tidegate_newest`
  FROM (
  SELECT s.* FROM (
    SELECT `_tidegate_row`.*, `_tidegate_last`, `_tidegate_reset` FROM (
      SELECT
        ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_is_row` DESC, `_tidegate_place` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`,
        ARRAY_AGG(
          IF(`_tidegate_sequence` IS NULL, NULL, STRUCT(`_tidegate_sequence` AS sequence, `_tidegate_op` AS op, `_tidegate_place` AS place, `_tidegate_topic` AS topic, `_tidegate_partition` AS `partition`, `_tidegate_offset` AS `offset`, `_tidegate_timestamp` AS `timestamp`))
          ORDER BY `_tidegate_level` DESC, `_tidegate_place` DESC LIMIT 1
        )[OFFSET(0)] AS `_tidegate_last`,
        ARRAY_AGG(
          IF(`_tidegate_sequence` IS NULL, STRUCT(`_tidegate_place` AS place, `_tidegate_topic` AS topic, `_tidegate_partition` AS `partition`, `_tidegate_offset` AS `offset`, `_tidegate_timestamp` AS `timestamp`), NULL)
          ORDER BY `_tidegate_sequence` IS NULL DESC, `_tidegate_place` DESC LIMIT 1
        )[OFFSET(0)] AS `_tidegate_reset`
      FROM (
        SELECT *,
          `_tidegate_op` <> 'd' AND COALESCE(`_tidegate_level` >= `_tidegate_before`, TRUE) AS `_tidegate_is_row`
        FROM (
          SELECT *,
            MAX(`_tidegate_level`) OVER (
              PARTITION BY `id`
              ORDER BY `_tidegate_place` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS `_tidegate_before`
          FROM (
            SELECT *,
              ROW_NUMBER() OVER (
                PARTITION BY `id`
                ORDER BY `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`
              ) AS `_tidegate_place`,
              IF(`_tidegate_sequence` IS NULL, NULL, DENSE_RANK() OVER (
                PARTITION BY `id`
                ORDER BY `_tidegate_sequence` IS NULL, `_tidegate_sequence`.`lsn`
              )) AS `_tidegate_level`
            FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`lsn` AS `lsn`,
        sequence AS `_tidegate_sequence`, `partition` AS `_tidegate_partition`, `timestamp` AS `_tidegate_timestamp`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp` JOIN `_tidegate_batches` ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
            )
          )
        )
      ) AS `_tidegate_record`
      GROUP BY `id`
    )
  ) AS s
  ) AS s
  )
)
SELECT t.`id`, t.`name`, t.`lsn`
FROM `my-project`.`shop`.`orders` AS t
LEFT JOIN `_tidegate_changes` AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE s.`_tidegate_is_change` IS NULL
UNION ALL
SELECT
  s.`id` AS `id`,
  IF(t.`_tidegate_there` IS NULL OR (s.`_tidegate_newest` IS NOT NULL AND (s.`_tidegate_newest`.`lsn` >= t.`lsn` OR t.`lsn` IS NULL)), s.`name`, t.`name`) AS `name`,
  IF(t.`_tidegate_there` IS NULL OR (s.`_tidegate_newest` IS NOT NULL AND (s.`_tidegate_newest`.`lsn` >= t.`lsn` OR t.`lsn` IS NULL)), s.`lsn`, t.`lsn`) AS `lsn`
FROM `_tidegate_changes` AS s
LEFT JOIN (SELECT *, TRUE AS `_tidegate_there` FROM `my-project`.`shop`.`orders`) AS t ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE CASE WHEN t.`_tidegate_there` IS NULL THEN s.`_tidegate_newest` IS NOT NULL AND NOT s.`_tidegate_ends_deleted` ELSE TRUE END
