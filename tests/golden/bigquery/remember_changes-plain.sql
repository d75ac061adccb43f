-- One row for each change: what a key was from when on, or when it was deleted. Facts of the log, so that writing them
-- again does no harm. A record that is read again counts as it is read now. A delete that tells no time of its own (kind t) ends what its key had come to.
MERGE INTO `my-project`.`shop`.`orders_changes` AS t
USING (
  SELECT `_tidegate_change`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_sequence_1` DESC, `_tidegate_sequence_2` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_change`
    FROM (
      SELECT s.*,
        IF(s.`_tidegate_kind` = 't', NULL, s.`_tidegate_sequence`.`at`) AS `_tidegate_sequence_1`,
        IF(s.`_tidegate_kind` = 't', NULL, s.`_tidegate_sequence`.`lsn`) AS `_tidegate_sequence_2`,
        IF(s.`_tidegate_kind` = 't', COALESCE(GREATEST(s.`_tidegate_reached`, t.`_tidegate_reached`), s.`_tidegate_reached`, t.`_tidegate_reached`), s.`_tidegate_axis`) AS `_tidegate_from`
      FROM (
        SELECT *,
          MAX(`_tidegate_axis`) OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            COALESCE(`_tidegate_sequence`.`at`, IF(`_tidegate_op` = 'd', `_tidegate_timestamp`, NULL)) AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` <> 'd' THEN 'u' WHEN `_tidegate_sequence`.`at` IS NULL THEN 't' ELSE 'd' END AS `_tidegate_kind`
          FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`tags` AS `tags`,
        value.`at` AS `at`,
        value.`lsn` AS `lsn`,
        sequence AS `_tidegate_sequence`, `partition` AS `_tidegate_partition`, `timestamp` AS `_tidegate_timestamp`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          )
        )
      ) AS s
      LEFT JOIN (
        SELECT ANY_VALUE(`_tidegate_record`.`id`) AS `id`, MAX(`_tidegate_record`.`_tidegate_reached`) AS `_tidegate_reached` FROM (
          SELECT t.`id`, t.`_tidegate_valid_from` AS `_tidegate_reached` FROM `my-project`.`shop`.`orders_changes` AS t
          JOIN (
      SELECT ANY_VALUE(`id`) AS `id` FROM (
        SELECT key.`id` AS `id` FROM `my-project`.`shop`.`orders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`id`
          ) AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
          UNION ALL
          SELECT t.`id`, COALESCE(GREATEST(t.`valid_from`, t.`valid_to`), t.`valid_from`) FROM `my-project`.`shop`.`orders` AS t
          JOIN (
      SELECT ANY_VALUE(`id`) AS `id` FROM (
        SELECT key.`id` AS `id` FROM `my-project`.`shop`.`orders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`id`
          ) AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
          WHERE TRUE
        ) AS `_tidegate_record`
        GROUP BY `_tidegate_record`.`id`
      ) AS t ON s.`_tidegate_kind` = 't' AND (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
      LEFT JOIN `my-project`.`shop`.`orders_changes` AS `_tidegate_known`
      ON s.`_tidegate_kind` = `_tidegate_known`.`_tidegate_kind` AND `_tidegate_known`.`_tidegate_kind` = 't'
        AND (s.`id` = `_tidegate_known`.`id` OR (s.`id` IS NULL AND `_tidegate_known`.`id` IS NULL))
        AND s.`_tidegate_offset` = `_tidegate_known`.`_tidegate_offset`
        AND s.`_tidegate_topic` = `_tidegate_known`.`_tidegate_topic`
        AND s.`_tidegate_partition` = `_tidegate_known`.`_tidegate_partition`
        AND s.`_tidegate_i` = `_tidegate_known`.`_tidegate_i`
      WHERE `_tidegate_known`.`_tidegate_kind` IS NULL
    ) AS `_tidegate_record`
    WHERE `_tidegate_record`.`_tidegate_from` IS NOT NULL
    GROUP BY `_tidegate_record`.`id`, `_tidegate_record`.`_tidegate_from`, `_tidegate_record`.`_tidegate_kind`
  )
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL)) AND t.`_tidegate_valid_from` = s.`_tidegate_from` AND t.`_tidegate_kind` = s.`_tidegate_kind`
WHEN MATCHED AND (s.`_tidegate_sequence_1` > IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`at`) OR (s.`_tidegate_sequence_1` IS NOT NULL AND IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`at`) IS NULL) OR ((s.`_tidegate_sequence_1` = IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`at`) OR (s.`_tidegate_sequence_1` IS NULL AND IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`at`) IS NULL)) AND (s.`_tidegate_sequence_2` > IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`lsn`) OR (s.`_tidegate_sequence_2` IS NOT NULL AND IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`lsn`) IS NULL) OR ((s.`_tidegate_sequence_2` = IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`lsn`) OR (s.`_tidegate_sequence_2` IS NULL AND IF(t.`_tidegate_kind` = 't', NULL, t.`_tidegate_sequence`.`lsn`) IS NULL)) AND (s.`_tidegate_offset` > t.`_tidegate_offset` OR (s.`_tidegate_offset` IS NOT NULL AND t.`_tidegate_offset` IS NULL) OR ((s.`_tidegate_offset` = t.`_tidegate_offset` OR (s.`_tidegate_offset` IS NULL AND t.`_tidegate_offset` IS NULL)) AND (s.`_tidegate_topic` > t.`_tidegate_topic` OR (s.`_tidegate_topic` IS NOT NULL AND t.`_tidegate_topic` IS NULL) OR ((s.`_tidegate_topic` = t.`_tidegate_topic` OR (s.`_tidegate_topic` IS NULL AND t.`_tidegate_topic` IS NULL)) AND (s.`_tidegate_partition` > t.`_tidegate_partition` OR (s.`_tidegate_partition` IS NOT NULL AND t.`_tidegate_partition` IS NULL) OR ((s.`_tidegate_partition` = t.`_tidegate_partition` OR (s.`_tidegate_partition` IS NULL AND t.`_tidegate_partition` IS NULL)) AND (s.`_tidegate_i` > t.`_tidegate_i` OR (s.`_tidegate_i` IS NOT NULL AND t.`_tidegate_i` IS NULL) OR (s.`_tidegate_i` = t.`_tidegate_i` OR (s.`_tidegate_i` IS NULL AND t.`_tidegate_i` IS NULL))))))))))))) THEN UPDATE SET
  t.`name` = s.`name`,
  t.`tags` = s.`tags`,
  t.`at` = s.`at`,
  t.`lsn` = s.`lsn`,
  t.`_tidegate_sequence` = s.`_tidegate_sequence`,
  t.`_tidegate_offset` = s.`_tidegate_offset`,
  t.`_tidegate_topic` = s.`_tidegate_topic`,
  t.`_tidegate_partition` = s.`_tidegate_partition`,
  t.`_tidegate_i` = s.`_tidegate_i`,
  t.`_tidegate_timestamp` = s.`_tidegate_timestamp`
WHEN NOT MATCHED THEN INSERT (`id`, `name`, `tags`, `at`, `lsn`, `_tidegate_sequence`, `_tidegate_valid_from`, `_tidegate_kind`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`, `_tidegate_timestamp`)
VALUES (s.`id`, s.`name`, s.`tags`, s.`at`, s.`lsn`, s.`_tidegate_sequence`, s.`_tidegate_from`, s.`_tidegate_kind`, s.`_tidegate_offset`, s.`_tidegate_topic`, s.`_tidegate_partition`, s.`_tidegate_i`, s.`_tidegate_timestamp`)
