-- A record counts if its sequence is not lower than any before it; a delete without one, if it is the later by offset.
-- newest: the highest sequence of the batch, row_sequence: that of its last upsert that counts; NULL where a remembered
-- delete is higher. A row of the table is compared with both.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT s.*,
    s.`_tidegate_reset` IS NOT NULL AS `_tidegate_is_reset`,
    COALESCE(s.`_tidegate_last`.op = 'd', TRUE) OR COALESCE(s.`_tidegate_reset`.place > s.`_tidegate_last`.place, FALSE) AS `_tidegate_ends_deleted`,
    IF(s.`_tidegate_is_row` AND (t.sequence IS NULL OR (s.`_tidegate_sequence` IS NOT NULL AND (s.`_tidegate_sequence`.`lsn` >= t.sequence.`lsn` OR t.sequence.`lsn` IS NULL))), s.`_tidegate_sequence`, NULL) AS `_tidegate_row_sequence`,
    IF(t.sequence IS NULL OR (s.`_tidegate_last`.sequence IS NOT NULL AND (s.`_tidegate_last`.sequence.`lsn` >= t.sequence.`lsn` OR t.sequence.`lsn` IS NULL)), s.`_tidegate_last`.sequence, NULL) AS `_tidegate_newest`
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
                ORDER BY `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`
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
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
            )
          )
        )
      ) AS `_tidegate_record`
      GROUP BY `id`
    )
  ) AS s
  LEFT JOIN (
    SELECT key.`id` AS `id`, sequence AS `_tidegate_sequence`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp` AS r
    WHERE batch_number > 7 AND op <> 'bad'
      AND NOT EXISTS (
        SELECT 1 FROM `my-project`.`shop`.`orders_shop_tmp` AS l
        WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          AND l.topic = r.topic AND l.`partition` = r.`partition` AND l.`offset` = r.`offset`
      )
  ) AS t
  ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
    AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR (t.`_tidegate_offset` > COALESCE(s.`_tidegate_reset`.`offset`, -1) AND (
      (t.`_tidegate_sequence` IS NOT NULL AND NOT COALESCE((s.`_tidegate_last`.sequence.`lsn` >= t.`_tidegate_sequence`.`lsn` OR t.`_tidegate_sequence`.`lsn` IS NULL), FALSE)) OR t.`_tidegate_offset` > COALESCE(s.`_tidegate_last`.`offset`, -1)
    )))
    AND (t.`_tidegate_sequence` IS NULL OR s.`_tidegate_last`.sequence IS NULL OR (t.`_tidegate_sequence`.`lsn` >= s.`_tidegate_last`.sequence.`lsn` OR s.`_tidegate_last`.sequence.`lsn` IS NULL))
  WHERE t.`_tidegate_is_later` IS NULL
  ) AS s
  LEFT JOIN `my-project`.`shop`.`orders_deletes` AS t ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND IF((s.`_tidegate_newest` IS NOT NULL AND (s.`_tidegate_newest`.`lsn` >= t.`lsn` OR t.`lsn` IS NULL)), s.`_tidegate_ends_deleted`, s.`_tidegate_is_reset`) THEN DELETE
WHEN MATCHED AND (s.`_tidegate_newest` IS NOT NULL AND (s.`_tidegate_newest`.`lsn` >= t.`lsn` OR t.`lsn` IS NULL)) THEN UPDATE SET
  t.`name` = s.`name`,
  t.`lsn` = s.`lsn`
WHEN NOT MATCHED AND s.`_tidegate_newest` IS NOT NULL AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `name`, `lsn`)
VALUES (s.`id`, s.`name`, s.`lsn`)
