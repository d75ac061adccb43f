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

    ) s
    WHERE s.`_tidegate_op` <> 'd'
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
    bool_or(`_tidegate_number` > 1) OR bool_or(`_tidegate_is_letter`) AS `_tidegate_doubt`
  FROM (
    SELECT r.*, l.offset IS NOT NULL AS `_tidegate_is_letter`
    FROM (
      SELECT key.`id` AS `id`,
        batch_number AS `_tidegate_number`, op AS `_tidegate_op`, topic AS `_tidegate_topic`, partition AS `_tidegate_partition`, offset AS `_tidegate_offset`
      FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 43
      WHERE batch_number IN (1, 2) AND attempt IN ('0af3', '0af4') AND op <> 'bad'
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
      WHEN coalesce(f.`_tidegate_doubt` OR f.`_tidegate_spread`, false) OR NOT coalesce(f.`_tidegate_seen`, false) OR (SELECT coalesce(bool_or(`_tidegate_spread`), false) FROM `_tidegate_facts`) OR p.`_tidegate_rows` = 0 THEN 'unknowable'
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
