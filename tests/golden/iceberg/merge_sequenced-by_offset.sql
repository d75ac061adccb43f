-- A record counts if its sequence is not lower than any before it; a delete without one, if it is the later by offset.
-- newest: the highest sequence of the batch, row_sequence: that of its last upsert that counts; NULL where a remembered
-- delete is higher. A row of the table is compared with both.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT s.*,
    s.`_tidegate_reset` IS NOT NULL AS `_tidegate_is_reset`,
    coalesce(s.`_tidegate_last`.op = 'd', true)
      OR coalesce(s.`_tidegate_reset`.at > s.`_tidegate_last`.at, false) AS `_tidegate_ends_deleted`,
    CASE WHEN s.`_tidegate_is_row` AND coalesce(s.`_tidegate_sequence` >= t.sequence, true) THEN s.`_tidegate_sequence` END AS `_tidegate_row_sequence`,
    CASE WHEN coalesce(s.`_tidegate_last`.sequence >= t.sequence, true) THEN s.`_tidegate_last`.sequence END AS `_tidegate_newest`
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
  ) s
  WHERE `_tidegate_rank` = 1
    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT key.`id` AS `id`, sequence AS `_tidegate_sequence`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`
        FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 r
        LEFT ANTI JOIN (
          SELECT topic, partition, offset FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        ) l ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
        WHERE batch_number > 7 AND op <> 'bad'
      ) t
      WHERE t.`id` <=> s.`id`
        AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR (t.`_tidegate_offset` > coalesce(s.`_tidegate_reset`.at.offset, -1) AND (
          coalesce(t.`_tidegate_sequence` > s.`_tidegate_last`.sequence, false) OR t.`_tidegate_offset` > coalesce(s.`_tidegate_last`.at.offset, -1)
        ))) AND coalesce(t.`_tidegate_sequence` >= s.`_tidegate_last`.sequence, true)
    )
  ) s
  LEFT JOIN `lake`.`shop`.`orders_deletes` t ON t.`id` <=> s.`id`
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND CASE WHEN s.`_tidegate_newest` >= named_struct('lsn', t.`lsn`)
  THEN s.`_tidegate_ends_deleted` ELSE s.`_tidegate_is_reset` END THEN DELETE
WHEN MATCHED AND s.`_tidegate_newest` >= named_struct('lsn', t.`lsn`) THEN UPDATE SET
  t.`name` = s.`name`,
  t.`lsn` = s.`lsn`
WHEN NOT MATCHED AND s.`_tidegate_newest` IS NOT NULL AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `name`, `lsn`)
VALUES (s.`id`, s.`name`, s.`lsn`)
