-- One row for each key that a batch deletes: at what sequence, and by which record. A fact of the log, so that writing it
-- again, or too early, does no harm. A delete without a sequence stands at the highest one known before it.
MERGE INTO `my-project`.`my shop`.`or\`ders_deletes` AS t
USING (
  SELECT
    s.`order id`,
    s.`select`,
    IF(t.sequence IS NULL OR (s.`_tidegate_last`.sequence IS NOT NULL AND (s.`_tidegate_last`.sequence.`a\`b` > t.sequence.`a\`b` OR (s.`_tidegate_last`.sequence.`a\`b` IS NOT NULL AND t.sequence.`a\`b` IS NULL) OR ((s.`_tidegate_last`.sequence.`a\`b` = t.sequence.`a\`b` OR (s.`_tidegate_last`.sequence.`a\`b` IS NULL AND t.sequence.`a\`b` IS NULL)) AND (s.`_tidegate_last`.sequence.`it's` >= t.sequence.`it's` OR t.sequence.`it's` IS NULL)))), s.`_tidegate_last`.sequence, t.sequence) AS sequence,
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
              PARTITION BY `order id`, `select`
              ORDER BY `_tidegate_place` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS `_tidegate_before`
          FROM (
            SELECT *,
              ROW_NUMBER() OVER (
                PARTITION BY `order id`, `select`
                ORDER BY `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`
              ) AS `_tidegate_place`,
              IF(`_tidegate_sequence` IS NULL, NULL, DENSE_RANK() OVER (
                PARTITION BY `order id`, `select`
                ORDER BY `_tidegate_sequence` IS NULL, `_tidegate_sequence`.`a\`b`, `_tidegate_sequence`.`it's`
              )) AS `_tidegate_level`
            FROM (
      SELECT
        key.`order id` AS `order id`,
        key.`select` AS `select`,
        value.`a\`b` AS `a\`b`,
        value.`c.d` AS `c.d`,
        value.`größe` AS `größe`,
        value.`it's` AS `it's`,
        value.`名前` AS `名前`,
        sequence AS `_tidegate_sequence`, `partition` AS `_tidegate_partition`, `timestamp` AS `_tidegate_timestamp`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`my shop`.`or\`ders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
            )
          )
        )
      ) AS `_tidegate_record`
      GROUP BY `order id`, `select`
    )
  ) AS s
  ) AS s
  LEFT JOIN (
    SELECT t.`order id`, t.`select`, STRUCT(t.`a\`b` AS `a\`b`, t.`it's` AS `it's`) AS sequence
    FROM `my-project`.`my shop`.`or\`ders` AS t
    WHERE TRUE
  ) AS t ON s.`_tidegate_reset` IS NOT NULL AND (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
  WHERE s.`_tidegate_last`.op = 'd' OR s.`_tidegate_reset` IS NOT NULL
) AS s
ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHEN MATCHED AND (s.sequence IS NOT NULL AND (s.sequence.`a\`b` > t.sequence.`a\`b` OR (s.sequence.`a\`b` IS NOT NULL AND t.sequence.`a\`b` IS NULL) OR ((s.sequence.`a\`b` = t.sequence.`a\`b` OR (s.sequence.`a\`b` IS NULL AND t.sequence.`a\`b` IS NULL)) AND (s.sequence.`it's` >= t.sequence.`it's` OR t.sequence.`it's` IS NULL)))) THEN UPDATE SET
  sequence = s.sequence,
  topic = s.`_tidegate_by`.topic,
  `partition` = s.`_tidegate_by`.`partition`,
  `offset` = s.`_tidegate_by`.`offset`,
  `timestamp` = s.`_tidegate_by`.`timestamp`
WHEN NOT MATCHED AND s.sequence IS NOT NULL THEN INSERT (`order id`, `select`, sequence, topic, `partition`, `offset`, `timestamp`
)
VALUES (s.`order id`, s.`select`, s.sequence, s.`_tidegate_by`.topic,
  s.`_tidegate_by`.`partition`, s.`_tidegate_by`.`offset`, s.`_tidegate_by`.`timestamp`
)
