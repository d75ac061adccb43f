-- How many rows are in buckets of keys whose checksums are those of the log, and the numbers of the other buckets.
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
          m.`_tidegate_sequence` AS sequence,
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
        CASE WHEN s.`_tidegate_kind` = 't' THEN struct(CAST(NULL AS STRUCT<`at`: TIMESTAMP, `lsn`: BIGINT>) AS sequence, s.`_tidegate_at` AS at) ELSE struct(s.`_tidegate_sequence` AS sequence, s.`_tidegate_at` AS at) END AS `_tidegate_order`,
        CASE WHEN s.`_tidegate_kind` = 't' THEN s.`_tidegate_reached` ELSE s.`_tidegate_axis` END AS `_tidegate_from`
      FROM (
        SELECT *,
          max(`_tidegate_axis`) OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            coalesce(`_tidegate_sequence`.`at`, CASE WHEN `_tidegate_op` = 'd' THEN CAST(`_tidegate_timestamp` AS TIMESTAMP) END) AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` <> 'd' THEN 'u' WHEN `_tidegate_sequence`.`at` IS NULL THEN 't' ELSE 'd' END AS `_tidegate_kind`
          FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`tags` AS `tags`,
      value.`at` AS `at`,
      value.`lsn` AS `lsn`,
      sequence AS `_tidegate_sequence`, timestamp AS `_tidegate_timestamp`,
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
)
SELECT to_json(named_struct(
  'equal', coalesce(sum(CASE WHEN is_same THEN table_rows END), 0L),
  'buckets', collect_list(CASE WHEN NOT is_same THEN bucket END)
)) FROM (
  SELECT bucket, count_if(`_tidegate_side` = 1) AS table_rows,
    sum(`_tidegate_side`) = 0 AND sum(`_tidegate_side` * (hash & 4294967295L)) = 0 AND sum(`_tidegate_side` * shiftrightunsigned(hash, 32)) = 0 AS is_same
  FROM (
    SELECT `_tidegate_side`, `_tidegate_bucket` AS bucket, xxhash64(s.`id`, s.`valid_to` IS NULL) AS hash
    FROM `_tidegate_sides` s
  )
  GROUP BY bucket
)
