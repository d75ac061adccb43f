-- A record counts if its sequence is not lower than any before it; a delete without one, if it is the later by offset.
-- newest: the highest sequence of the batch, row_sequence: that of its last upsert that counts; NULL where a remembered
-- delete is higher. A row of the table is compared with both.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
  SELECT s.*,
    s.`_tidegate_reset` IS NOT NULL AS `_tidegate_is_reset`,
    COALESCE(s.`_tidegate_last`.op = 'd', TRUE) OR COALESCE(s.`_tidegate_reset`.place > s.`_tidegate_last`.place, FALSE) AS `_tidegate_ends_deleted`,
    IF(s.`_tidegate_is_row` AND (t.sequence IS NULL OR (s.`_tidegate_sequence` IS NOT NULL AND (s.`_tidegate_sequence`.`a\`b` > t.sequence.`a\`b` OR (s.`_tidegate_sequence`.`a\`b` IS NOT NULL AND t.sequence.`a\`b` IS NULL) OR ((s.`_tidegate_sequence`.`a\`b` = t.sequence.`a\`b` OR (s.`_tidegate_sequence`.`a\`b` IS NULL AND t.sequence.`a\`b` IS NULL)) AND (s.`_tidegate_sequence`.`it's` >= t.sequence.`it's` OR t.sequence.`it's` IS NULL))))), s.`_tidegate_sequence`, NULL) AS `_tidegate_row_sequence`,
    IF(t.sequence IS NULL OR (s.`_tidegate_last`.sequence IS NOT NULL AND (s.`_tidegate_last`.sequence.`a\`b` > t.sequence.`a\`b` OR (s.`_tidegate_last`.sequence.`a\`b` IS NOT NULL AND t.sequence.`a\`b` IS NULL) OR ((s.`_tidegate_last`.sequence.`a\`b` = t.sequence.`a\`b` OR (s.`_tidegate_last`.sequence.`a\`b` IS NULL AND t.sequence.`a\`b` IS NULL)) AND (s.`_tidegate_last`.sequence.`it's` >= t.sequence.`it's` OR t.sequence.`it's` IS NULL)))), s.`_tidegate_last`.sequence, NULL) AS `_tidegate_newest`
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
  LEFT JOIN `my-project`.`my shop`.`or\`ders_deletes` AS t ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
) AS s
ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHEN MATCHED AND (s.`_tidegate_row_sequence` IS NOT NULL AND (s.`_tidegate_row_sequence`.`a\`b` > t.`a\`b` OR (s.`_tidegate_row_sequence`.`a\`b` IS NOT NULL AND t.`a\`b` IS NULL) OR ((s.`_tidegate_row_sequence`.`a\`b` = t.`a\`b` OR (s.`_tidegate_row_sequence`.`a\`b` IS NULL AND t.`a\`b` IS NULL)) AND (s.`_tidegate_row_sequence`.`it's` >= t.`it's` OR t.`it's` IS NULL)))) THEN UPDATE SET
  t.`a\`b` = s.`_tidegate_newest`.`a\`b`,
  t.`c.d` = s.`c.d`,
  t.`größe` = s.`größe`,
  t.`it's` = s.`_tidegate_newest`.`it's`,
  t.`名前` = s.`名前`,
  t.`_deleted` = s.`_tidegate_ends_deleted`
WHEN MATCHED AND (s.`_tidegate_newest` IS NOT NULL AND (s.`_tidegate_newest`.`a\`b` > t.`a\`b` OR (s.`_tidegate_newest`.`a\`b` IS NOT NULL AND t.`a\`b` IS NULL) OR ((s.`_tidegate_newest`.`a\`b` = t.`a\`b` OR (s.`_tidegate_newest`.`a\`b` IS NULL AND t.`a\`b` IS NULL)) AND (s.`_tidegate_newest`.`it's` >= t.`it's` OR t.`it's` IS NULL)))) THEN UPDATE SET
  t.`a\`b` = s.`_tidegate_newest`.`a\`b`,
  t.`it's` = s.`_tidegate_newest`.`it's`,
  t.`_deleted` = TRUE
WHEN MATCHED AND s.`_tidegate_is_reset` THEN UPDATE SET t.`_deleted` = TRUE
WHEN NOT MATCHED AND s.`_tidegate_row_sequence` IS NOT NULL THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`, `_deleted`)
VALUES (s.`order id`, s.`select`, s.`_tidegate_newest`.`a\`b`, s.`c.d`, s.`größe`, s.`_tidegate_newest`.`it's`, s.`名前`, s.`_tidegate_ends_deleted`)
