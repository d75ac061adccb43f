-- One row for each key that a batch deletes: at what sequence, and by which record. A fact of the log, so that writing it
-- again does no harm. A delete without a sequence stands at the highest one known before it.
MERGE INTO `lake`.`shop`.`orders_deletes`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT
    s.`id`,
    greatest(s.`_tidegate_last`.sequence, t.sequence) AS sequence,
    greatest(
      CASE WHEN s.`_tidegate_last`.op = 'd' THEN named_struct('at', s.`_tidegate_last`.at, 'timestamp', s.`_tidegate_last`.timestamp) END,
      s.`_tidegate_reset`
    ) AS `_tidegate_by`
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
      struct(batch_number, offset, topic, partition, i) AS `_tidegate_at`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
        )
      )
    )
  )
  WHERE `_tidegate_rank` = 1
  ) s
  LEFT JOIN (
    SELECT t.`id`, named_struct('lsn', t.`lsn`) AS sequence
    FROM `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
  ) t ON s.`_tidegate_reset` IS NOT NULL AND t.`id` <=> s.`id`
  WHERE s.`_tidegate_last`.op = 'd' OR s.`_tidegate_reset` IS NOT NULL
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND s.sequence >= t.sequence THEN UPDATE SET
  t.sequence = s.sequence,
  t.topic = s.`_tidegate_by`.at.topic,
  t.partition = s.`_tidegate_by`.at.partition,
  t.offset = s.`_tidegate_by`.at.offset,
  t.timestamp = s.`_tidegate_by`.timestamp
WHEN NOT MATCHED AND s.sequence IS NOT NULL THEN INSERT (`id`, sequence, topic, partition, offset, timestamp
)
VALUES (s.`id`, s.sequence, s.`_tidegate_by`.at.topic,
  s.`_tidegate_by`.at.partition, s.`_tidegate_by`.at.offset, s.`_tidegate_by`.timestamp
)
