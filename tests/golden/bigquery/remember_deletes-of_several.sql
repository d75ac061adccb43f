-- One row for each key that a batch deletes: at what sequence, and by which record. A fact of the log, so that writing it
-- again, or too early, does no harm. A delete without a sequence stands at the highest one known before it.
MERGE INTO `my-project`.`shop`.`orders_deletes` AS t
USING (
  SELECT
    s.`id`,
    IF(t.sequence IS NULL OR (s.`_tidegate_last`.sequence IS NOT NULL AND (s.`_tidegate_last`.sequence.`lsn` >= t.sequence.`lsn` OR t.sequence.`lsn` IS NULL)), s.`_tidegate_last`.sequence, t.sequence) AS sequence,
    IF(
      s.`_tidegate_last`.op = 'd' AND COALESCE(s.`_tidegate_last`.place > s.`_tidegate_reset`.place, TRUE),
      STRUCT(s.`_tidegate_last`.place AS place, s.`_tidegate_last`.topic AS topic, s.`_tidegate_last`.`partition` AS `partition`, s.`_tidegate_last`.`offset` AS `offset`, s.`_tidegate_last`.`timestamp` AS `timestamp`),
      s.`_tidegate_reset`
    ) AS `_tidegate_by`
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
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
            )
          )
        )
      ) AS `_tidegate_record`
      GROUP BY `id`
    )
  ) AS s
  ) AS s
  LEFT JOIN (
    SELECT t.`id`, STRUCT(t.`lsn` AS `lsn`) AS sequence
    FROM `my-project`.`shop`.`orders` AS t
    WHERE TRUE
  ) AS t ON s.`_tidegate_reset` IS NOT NULL AND (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
  WHERE s.`_tidegate_last`.op = 'd' OR s.`_tidegate_reset` IS NOT NULL
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND (s.sequence IS NOT NULL AND (s.sequence.`lsn` >= t.sequence.`lsn` OR t.sequence.`lsn` IS NULL)) THEN UPDATE SET
  sequence = s.sequence,
  topic = s.`_tidegate_by`.topic,
  `partition` = s.`_tidegate_by`.`partition`,
  `offset` = s.`_tidegate_by`.`offset`,
  `timestamp` = s.`_tidegate_by`.`timestamp`
WHEN NOT MATCHED AND s.sequence IS NOT NULL THEN INSERT (`id`, sequence, topic, `partition`, `offset`, `timestamp`
)
VALUES (s.`id`, s.sequence, s.`_tidegate_by`.topic,
  s.`_tidegate_by`.`partition`, s.`_tidegate_by`.`offset`, s.`_tidegate_by`.`timestamp`
)
