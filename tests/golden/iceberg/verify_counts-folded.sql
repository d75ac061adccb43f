-- How many keys of the differing buckets are of each kind.
WITH `_tidegate_sides` AS (
SELECT *, pmod(xxhash64(`id`, `id` IS NULL), 1024) AS `_tidegate_bucket` FROM (
    SELECT `id`, `name`, `amount`, `Gone`,
      1L AS `_tidegate_side`
    FROM `lake`.`shop`.`orders` VERSION AS OF 42
    UNION ALL
SELECT s.`id`, s.`name`, s.`amount`, s.`_tidegate_ends_deleted` AS `Gone`,
      -1L AS `_tidegate_side`
    FROM (

  SELECT
    any_value(`id`) AS `id`,
    max_by(`name`, CASE WHEN `_tidegate_counts` AND `name` IS NOT NULL THEN `_tidegate_at` END) AS `name`,
    coalesce(bool_or(`_tidegate_counts` AND `name` IS NOT NULL), false) AS `_tidegate_given_1`,
    max_by(`amount`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `amount`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_2`,
    max(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    coalesce(max(`_tidegate_last_life`) > 0, false) AS `_tidegate_is_reset`,
    max_by(`_tidegate_op`, `_tidegate_at`) = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *,
        max(CASE WHEN `_tidegate_op` <> 'd' THEN `_tidegate_life` END) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          struct(`_tidegate_offset`, `_tidegate_i`) AS `_tidegate_at`,
          0L AS `_tidegate_life`
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
    )
  )
  GROUP BY `id`

    ) s
    WHERE s.`_tidegate_is_row`
  )
  WHERE pmod(xxhash64(`id`, `id` IS NULL), 1000000) < 10000
),
`_tidegate_pairs` AS (
  SELECT `id` AS `_tidegate_key_1`,
    count_if(`_tidegate_side` = 1) AS `_tidegate_rows`, count_if(`_tidegate_side` = -1) AS `_tidegate_expected`,
    first(struct(`id`, `name`, `amount`)) FILTER (WHERE `_tidegate_side` = 1) AS `_tidegate_table`,
    first(struct(`id`, `name`, `amount`)) FILTER (WHERE `_tidegate_side` = -1) AS `_tidegate_log`
  FROM `_tidegate_sides`
  WHERE `_tidegate_bucket` IN (3, 900)
  GROUP BY `id`
),
`_tidegate_facts` AS (
  SELECT `id` AS `_tidegate_key_1`,
    bool_or(`_tidegate_number` = 1) AS `_tidegate_seen`,
    count(DISTINCT CASE WHEN `_tidegate_number` = 1 THEN struct(`_tidegate_topic`, `_tidegate_partition`) END) > 1 AS `_tidegate_spread`,
    bool_or(`_tidegate_number` > 1) OR bool_or(`_tidegate_is_letter`) OR (bool_or(`_tidegate_op` = 'd') AND bool_or(`_tidegate_is_late`)) AS `_tidegate_doubt`
  FROM (
    SELECT r.*, l.offset IS NOT NULL AS `_tidegate_is_letter`
    FROM (
      SELECT key.`id` AS `id`,
        batch_number AS `_tidegate_number`, op AS `_tidegate_op`, topic AS `_tidegate_topic`, partition AS `_tidegate_partition`, offset AS `_tidegate_offset`, coalesce(sequence < max(sequence) OVER (
          PARTITION BY key.`id`
          ORDER BY offset, topic, partition, i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), false) AS `_tidegate_is_late`
      FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 43
      WHERE batch_number = 1 AND attempt = '0af3' AND op <> 'bad'
    ) r
    LEFT JOIN (
      SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, CAST(NULL AS BIGINT) AS offset
    ) l ON l.topic = r.`_tidegate_topic` AND l.partition = r.`_tidegate_partition` AND l.offset = r.`_tidegate_offset`
  )
  GROUP BY `id`
),
`_tidegate_compared` AS (
  SELECT p.*,
    CASE
      WHEN p.`_tidegate_rows` = 1 AND p.`_tidegate_expected` = 1
        AND p.`_tidegate_table`.`id` <=> p.`_tidegate_log`.`id`
        AND p.`_tidegate_table`.`name` <=> p.`_tidegate_log`.`name`
        AND p.`_tidegate_table`.`amount` <=> p.`_tidegate_log`.`amount` THEN 'equal'
      WHEN coalesce(f.`_tidegate_doubt` OR f.`_tidegate_spread`, false) OR true THEN 'unknowable'
      WHEN p.`_tidegate_rows` = 0 THEN 'missing'
      WHEN p.`_tidegate_expected` = 0 OR p.`_tidegate_rows` > 1 THEN 'surplus'
      ELSE 'different'
    END AS `_tidegate_kind`
  FROM `_tidegate_pairs` p LEFT JOIN `_tidegate_facts` f
  ON p.`_tidegate_key_1` <=> f.`_tidegate_key_1`
)
SELECT to_json(named_struct(
  'equal', count_if(`_tidegate_kind` = 'equal'),
  'missing', count_if(`_tidegate_kind` = 'missing'),
  'copied', count_if(`_tidegate_kind` = 'surplus' AND `_tidegate_expected` = 1)
)) FROM `_tidegate_compared`
