-- How many keys of the differing buckets are of each kind.
WITH `_tidegate_sides` AS (
SELECT *, pmod(xxhash64(`id`, `id` IS NULL), 1024) AS `_tidegate_bucket` FROM (
    SELECT `id`, `name`, `tags`, `at`, `lsn`, `valid_from`, `valid_to`, `is_current`,
      1L AS `_tidegate_side`
    FROM `lake`.`shop`.`orders` VERSION AS OF 42
    UNION ALL
SELECT s.`id`, s.`name`, s.`tags`, s.`at`, s.`lsn`, s.`valid_from`, s.`valid_to`, s.`is_current`,
      -1L AS `_tidegate_side`
    FROM (
  SELECT *, `_tidegate_from` AS `valid_from`, `_tidegate_to` AS `valid_to`, `_tidegate_to` IS NULL AS `is_current` FROM (
  SELECT `id`, `_tidegate_row`.`name`, `_tidegate_row`.`tags`, `_tidegate_row`.`at`, `_tidegate_row`.`lsn`,
    `_tidegate_from`, `_tidegate_opens`,
    CASE WHEN `_tidegate_ends` THEN `_tidegate_from` ELSE min(CASE WHEN `_tidegate_opens` OR `_tidegate_ends` THEN `_tidegate_from` END) OVER (
      PARTITION BY `id`
      ORDER BY `_tidegate_from` ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) END AS `_tidegate_to`
  FROM (
    SELECT *,
      `_tidegate_row` IS NOT NULL AND NOT coalesce(
        lag(`_tidegate_row`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`) IS NOT NULL
        AND NOT lag(`_tidegate_ends`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
        AND _tidegate_row.`name` <=> lag(_tidegate_row.`name`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
        AND sort_array(transform(map_entries(_tidegate_row.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> lag(sort_array(transform(map_entries(_tidegate_row.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
      , false) AS `_tidegate_opens`
    FROM (
    SELECT *,
      CASE WHEN `_tidegate_deleted` IS NULL THEN false ELSE coalesce(`_tidegate_deleted` > `_tidegate_upserted`, true) END
      OR CASE WHEN `_tidegate_cut` IS NULL THEN false ELSE coalesce(`_tidegate_cut` > last_value(`_tidegate_upserted`.at, true) OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_from` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), true) END
      OR `_tidegate_deleted` IS NULL AND `_tidegate_cut` IS NULL AND coalesce(`_tidegate_ended` > coalesce(`_tidegate_upserted`.at.offset, -9), false) AS `_tidegate_ends`
    FROM (
      SELECT
        any_value(`id`) AS `id`,
        `_tidegate_from`,
        max_by(`_tidegate_row`, CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_row`,
        max(CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_upserted`,
        max(CASE WHEN `_tidegate_kind` = 'd' THEN `_tidegate_order` END) AS `_tidegate_deleted`,
        max(CASE WHEN `_tidegate_kind` = 't' THEN `_tidegate_order`.at END) AS `_tidegate_cut`,
        max(CASE WHEN `_tidegate_kind` = 'x' THEN `_tidegate_order`.at.offset END) AS `_tidegate_ended`
      FROM (
      SELECT
        m.`id` AS `id`,
        struct(true AS `_tidegate_there`, m.`name` AS `name`, m.`tags` AS `tags`, m.`at` AS `at`, m.`lsn` AS `lsn`) AS `_tidegate_row`,
        m.`_tidegate_valid_from` AS `_tidegate_from`, m.`_tidegate_kind` AS `_tidegate_kind`,
        struct(
          true AS sequence,
          struct(m.`_tidegate_offset` AS offset, m.`_tidegate_topic` AS topic, m.`_tidegate_partition` AS partition, m.`_tidegate_i` AS i) AS at
        ) AS `_tidegate_order`
      FROM (
        SELECT *, `_tidegate_from` AS `_tidegate_valid_from`, `_tidegate_at`.partition AS `_tidegate_partition` FROM (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `id`, `_tidegate_from`, `_tidegate_kind`
      ORDER BY `_tidegate_order` DESC
    ) AS `_tidegate_rank`
    FROM (
      SELECT s.*,
        s.`_tidegate_at` AS `_tidegate_order`,
        CASE WHEN s.`_tidegate_kind` = 't' THEN s.`_tidegate_reached` ELSE s.`_tidegate_axis` END AS `_tidegate_from`
      FROM (
        SELECT *,
          max(`_tidegate_axis`) OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            `_tidegate_timestamp` AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` = 'd' THEN 'd' ELSE 'u' END AS `_tidegate_kind`
          FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`tags` AS `tags`,
      value.`at` AS `at`,
      value.`lsn` AS `lsn`,
      timestamp AS `_tidegate_timestamp`,
      struct(offset, topic, partition, i) AS `_tidegate_at`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          )
        )
      ) s
    )
  )
  WHERE `_tidegate_rank` = 1 AND `_tidegate_from` IS NOT NULL
        )
      ) m
      )
      GROUP BY `id`, `_tidegate_from`
    )
    )
    WHERE `_tidegate_row` IS NOT NULL OR `_tidegate_ends`
  )
  )

    ) s
    WHERE s.`_tidegate_opens`
  )
  WHERE pmod(xxhash64(`id`, `id` IS NULL), 1000000) < 10000
),
`_tidegate_pairs` AS (
  SELECT `id` AS `_tidegate_key_1`, `valid_from` AS `_tidegate_key_2`,
    count_if(`_tidegate_side` = 1) AS `_tidegate_rows`, count_if(`_tidegate_side` = -1) AS `_tidegate_expected`,
    first(struct(`id`, `name`, `tags`, `at`, `lsn`, `valid_from`, `valid_to`, `is_current`)) FILTER (WHERE `_tidegate_side` = 1) AS `_tidegate_table`,
    first(struct(`id`, `name`, `tags`, `at`, `lsn`, `valid_from`, `valid_to`, `is_current`)) FILTER (WHERE `_tidegate_side` = -1) AS `_tidegate_log`
  FROM `_tidegate_sides`
  WHERE `_tidegate_bucket` IN (3, 900)
  GROUP BY `id`, `valid_from`
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
      WHERE batch_number = 1 AND attempt = '0af3' AND op <> 'bad'
    ) r
    LEFT JOIN (
      SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, CAST(NULL AS BIGINT) AS offset
    ) l ON l.topic = r.`_tidegate_topic` AND l.partition = r.`_tidegate_partition` AND l.offset = r.`_tidegate_offset`
  )
  GROUP BY `id`
),
`_tidegate_untold` AS (
  SELECT DISTINCT s.`id` AS `_tidegate_key_1`, `_tidegate_is_late`
  FROM (
    SELECT *, `_tidegate_axis` < `_tidegate_reached` AS `_tidegate_is_late`
    FROM (
        SELECT *,
          max(`_tidegate_axis`) OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            `_tidegate_timestamp` AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` = 'd' THEN 'd' ELSE 'u' END AS `_tidegate_kind`
          FROM (
    SELECT
      key.`id` AS `id`,
      timestamp AS `_tidegate_timestamp`,
      struct(offset, topic, partition, i) AS `_tidegate_at`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          )
        )
    )
  ) s
  WHERE `_tidegate_is_late`
),
`_tidegate_compared` AS (
  SELECT p.*,
    CASE
      WHEN p.`_tidegate_rows` = 1 AND p.`_tidegate_expected` = 1
        AND p.`_tidegate_table`.`id` <=> p.`_tidegate_log`.`id`
        AND p.`_tidegate_table`.`name` <=> p.`_tidegate_log`.`name`
        AND p.`_tidegate_table`.`tags` <=> p.`_tidegate_log`.`tags`
        AND p.`_tidegate_table`.`at` <=> p.`_tidegate_log`.`at`
        AND p.`_tidegate_table`.`lsn` <=> p.`_tidegate_log`.`lsn`
        AND p.`_tidegate_table`.`valid_from` <=> p.`_tidegate_log`.`valid_from`
        AND p.`_tidegate_table`.`valid_to` <=> p.`_tidegate_log`.`valid_to`
        AND p.`_tidegate_table`.`is_current` <=> p.`_tidegate_log`.`is_current` THEN 'equal'
      WHEN coalesce(f.`_tidegate_doubt` OR f.`_tidegate_spread`, false) OR u.`_tidegate_is_late` IS NOT NULL OR true THEN 'unknowable'
      WHEN p.`_tidegate_rows` = 0 THEN 'missing'
      WHEN p.`_tidegate_expected` = 0 OR p.`_tidegate_rows` > 1 THEN 'surplus'
      ELSE 'different'
    END AS `_tidegate_kind`
  FROM `_tidegate_pairs` p LEFT JOIN `_tidegate_facts` f
  ON p.`_tidegate_key_1` <=> f.`_tidegate_key_1`
  LEFT JOIN `_tidegate_untold` u
  ON p.`_tidegate_key_1` <=> u.`_tidegate_key_1`
)
SELECT to_json(named_struct(
  'equal', count_if(`_tidegate_kind` = 'equal'),
  'missing', count_if(`_tidegate_kind` = 'missing'),
  'copied', count_if(`_tidegate_kind` = 'surplus' AND `_tidegate_expected` = 1)
)) FROM `_tidegate_compared`
