-- None of the keys is in the snapshot that the branch was cut from: the last record of each is a row, a delete is nothing.
INSERT INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` (`k`, `name`, `amount`)
SELECT `k`, `name`, `amount`
FROM (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `k`.`id`, `k`.`at`.`zone`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`k` AS `k`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_rank` = 1
)
WHERE `_tidegate_op` <> 'd'
