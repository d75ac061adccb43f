-- A key's staged records are folded column by column: each column has the last value that a record gave it, else what the
-- row has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
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
  SELECT
    ANY_VALUE(`id`) AS `id`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE), STRUCT(`a` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE) DESC, `va` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`a` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `a`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)) AS `_tidegate_given_1`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE), STRUCT(`va` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE) DESC, `va` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`va` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `va`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)) AS `_tidegate_given_2`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE), STRUCT(`b` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE) DESC, `vb` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`b` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `b`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)) AS `_tidegate_given_3`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE), STRUCT(`vb` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE) DESC, `vb` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`vb` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `vb`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)) AS `_tidegate_given_4`,
    ARRAY_AGG(IF(`_tidegate_counts` AND `name` IS NOT NULL, STRUCT(`name` AS v), NULL) ORDER BY `_tidegate_counts` AND `name` IS NOT NULL DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `name`,
    COALESCE(LOGICAL_OR(`_tidegate_counts` AND `name` IS NOT NULL), FALSE) AS `_tidegate_given_5`,
    MAX(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    COALESCE(MAX(`_tidegate_last_life`) > 0, FALSE) AS `_tidegate_is_reset`,
    ARRAY_AGG(`_tidegate_op` ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *, MAX(IF(`_tidegate_op` <> 'd', `_tidegate_life`, NULL)) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          0 AS `_tidegate_life`
        FROM (
      SELECT
        key.`id` AS `id`,
        value.`a` AS `a`,
        value.`va` AS `va`,
        value.`b` AS `b`,
        value.`vb` AS `vb`,
        value.`name` AS `name`,
        `partition` AS `_tidegate_partition`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp` JOIN `_tidegate_batches` ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`id`
  )
)
SELECT t.`id`, t.`a`, t.`va`, t.`b`, t.`vb`, t.`name`, t.`_deleted`
FROM `my-project`.`shop`.`orders` AS t
LEFT JOIN `_tidegate_changes` AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE s.`_tidegate_is_change` IS NULL
UNION ALL
SELECT
  s.`id` AS `id`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_1` AND coalesce(s.`va` >= t.`va`, true) THEN s.`a` ELSE t.`a` END AS `a`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_2` AND coalesce(s.`va` >= t.`va`, true) THEN s.`va` ELSE t.`va` END AS `va`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_3` AND coalesce(s.`vb` >= t.`vb`, true) THEN s.`b` ELSE t.`b` END AS `b`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_4` AND coalesce(s.`vb` >= t.`vb`, true) THEN s.`vb` ELSE t.`vb` END AS `vb`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_5` THEN s.`name` ELSE t.`name` END AS `name`,
  s.`_tidegate_ends_deleted` OR NOT s.`_tidegate_is_row` AS `_deleted`
FROM `_tidegate_changes` AS s
LEFT JOIN (SELECT *, TRUE AS `_tidegate_there` FROM `my-project`.`shop`.`orders`) AS t ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE t.`_tidegate_there` OR s.`_tidegate_is_row`
