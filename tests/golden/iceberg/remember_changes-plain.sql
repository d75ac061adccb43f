-- One row for each change: what a key was from when on, or when it was deleted. Facts of the log, so that writing them
-- again does no harm. A record that is read again counts as it is read now. A delete that tells no time of its own (kind t) ends what its key had come to.
MERGE INTO `lake`.`shop`.`orders_changes`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `id`, `_tidegate_from`, `_tidegate_kind`
      ORDER BY `_tidegate_order` DESC
    ) AS `_tidegate_rank`
    FROM (
      SELECT s.*,
        CASE WHEN s.`_tidegate_kind` = 't' THEN struct(CAST(NULL AS STRUCT<`at`: TIMESTAMP, `lsn`: BIGINT>) AS sequence, s.`_tidegate_at` AS at) ELSE struct(s.`_tidegate_sequence` AS sequence, s.`_tidegate_at` AS at) END AS `_tidegate_order`,
        CASE WHEN s.`_tidegate_kind` = 't' THEN greatest(s.`_tidegate_reached`, t.`_tidegate_reached`) ELSE s.`_tidegate_axis` END AS `_tidegate_from`
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
      LEFT JOIN (
        SELECT any_value(`id`) AS `id`, max(`_tidegate_reached`) AS `_tidegate_reached` FROM (
          SELECT m.`id` AS `id`, m.`_tidegate_valid_from` AS `_tidegate_reached` FROM `lake`.`shop`.`orders_changes`.`branch_tidegate_shop_7_0af3` m LEFT SEMI JOIN (SELECT key.`id` AS `id` FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON m.`id` <=> s.`id`
          UNION ALL
          SELECT t.`id`, greatest(t.`valid_from`, t.`valid_to`) FROM `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t LEFT SEMI JOIN (SELECT key.`id` AS `id` FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON t.`id` <=> s.`id`
        ) GROUP BY `id`
      ) t ON s.`_tidegate_kind` = 't' AND t.`id` <=> s.`id`
      LEFT ANTI JOIN `lake`.`shop`.`orders_changes`.`branch_tidegate_shop_7_0af3` m
      ON s.`_tidegate_kind` = 't' AND m.`_tidegate_kind` = 't' AND m.`id` <=> s.`id` AND m.`_tidegate_topic` = s.`_tidegate_topic` AND m.`_tidegate_partition` = s.`_tidegate_at`.partition
        AND m.`_tidegate_offset` = s.`_tidegate_offset` AND m.`_tidegate_i` = s.`_tidegate_i`
    )
  )
  WHERE `_tidegate_rank` = 1 AND `_tidegate_from` IS NOT NULL
) s
ON t.`id` <=> s.`id` AND t.`_tidegate_valid_from` = s.`_tidegate_from` AND t.`_tidegate_kind` = s.`_tidegate_kind`
WHEN MATCHED AND s.`_tidegate_order` >= struct(CASE WHEN t.`_tidegate_kind` <> 't' THEN t.`_tidegate_sequence` END AS sequence, struct(t.`_tidegate_offset` AS offset, t.`_tidegate_topic` AS topic, t.`_tidegate_partition` AS partition, t.`_tidegate_i` AS i) AS at) THEN UPDATE SET
  t.`name` = s.`name`,
  t.`tags` = s.`tags`,
  t.`at` = s.`at`,
  t.`lsn` = s.`lsn`,
  t.`_tidegate_sequence` = s.`_tidegate_sequence`,
  t.`_tidegate_topic` = s.`_tidegate_topic`,
  t.`_tidegate_partition` = s.`_tidegate_at`.partition,
  t.`_tidegate_offset` = s.`_tidegate_offset`,
  t.`_tidegate_i` = s.`_tidegate_i`,
  t.`_tidegate_timestamp` = s.`_tidegate_timestamp`
WHEN NOT MATCHED THEN INSERT (`id`, `name`, `tags`, `at`, `lsn`, `_tidegate_sequence`, `_tidegate_valid_from`, `_tidegate_kind`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_offset`, `_tidegate_i`, `_tidegate_timestamp`)
VALUES (s.`id`, s.`name`, s.`tags`, s.`at`, s.`lsn`, s.`_tidegate_sequence`, s.`_tidegate_from`, s.`_tidegate_kind`, s.`_tidegate_topic`, s.`_tidegate_at`.partition, s.`_tidegate_offset`, s.`_tidegate_i`, s.`_tidegate_timestamp`)
