-- How many rows are in buckets of keys whose checksums are those of the log, and the numbers of the other buckets.
WITH `_tidegate_sides` AS (
SELECT *, pmod(xxhash64(`id`, `id` IS NULL), 1024) AS `_tidegate_bucket` FROM (
    SELECT `id`, `name`, `lsn`, `Gone`,
      1L AS `_tidegate_side`
    FROM `lake`.`shop`.`orders` VERSION AS OF 42
    UNION ALL
SELECT s.`id`, s.`name`, s.`_tidegate_newest`.`lsn`, s.`_tidegate_ends_deleted` AS `Gone`,
      -1L AS `_tidegate_side`
    FROM (
  SELECT s.*,
    s.`_tidegate_reset` IS NOT NULL AS `_tidegate_is_reset`,
    coalesce(s.`_tidegate_last`.op = 'd', true)
      OR coalesce(s.`_tidegate_reset`.at > s.`_tidegate_last`.at, false) AS `_tidegate_ends_deleted`,
    CASE WHEN s.`_tidegate_is_row` THEN s.`_tidegate_sequence` END AS `_tidegate_row_sequence`,
    s.`_tidegate_last`.sequence AS `_tidegate_newest`
  FROM (
  SELECT * FROM (
    SELECT *,
      row_number() OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_is_row` DESC, `_tidegate_at` DESC
      ) AS `_tidegate_rank`
    FROM (
      SELECT *,
        `_tidegate_op` <> 'd' AND coalesce(`_tidegate_sequence` >= `_tidegate_before`, true) AS `_tidegate_is_row`
      FROM (
        SELECT *,
          max(`_tidegate_sequence`) OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS `_tidegate_before`,
          max(CASE WHEN `_tidegate_sequence` IS NOT NULL THEN named_struct(
            'sequence', `_tidegate_sequence`, 'at', `_tidegate_at`, 'timestamp', `_tidegate_timestamp`, 'op', `_tidegate_op`
          ) END) OVER (PARTITION BY `id`) AS `_tidegate_last`,
          max(CASE WHEN `_tidegate_sequence` IS NULL THEN named_struct(
            'at', `_tidegate_at`, 'timestamp', `_tidegate_timestamp`
          ) END) OVER (PARTITION BY `id`) AS `_tidegate_reset`
        FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`lsn` AS `lsn`,
      sequence AS `_tidegate_sequence`, timestamp AS `_tidegate_timestamp`,
      struct(offset, topic, partition, i) AS `_tidegate_at`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        )
      )
    )
  )
  WHERE `_tidegate_rank` = 1
  ) s

    ) s
    WHERE s.`_tidegate_row_sequence` IS NOT NULL
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
    SELECT `_tidegate_side`, `_tidegate_bucket` AS bucket, xxhash64(s.`id`, s.`id` IS NULL) AS hash
    FROM `_tidegate_sides` s
  )
  GROUP BY bucket
)
