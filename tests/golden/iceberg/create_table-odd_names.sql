CREATE TABLE IF NOT EXISTS `lake`.`my shop`.`or``ders` (
  `order id` STRUCT<`a b`: INT>,
  `select` STRUCT<`a b`: INT>,
  `a``b` STRUCT<`a b`: INT>,
  `c.d` STRUCT<`a b`: INT>,
  `größe` STRUCT<`a b`: INT>,
  `it's` STRUCT<`a b`: INT>,
  `名前` STRUCT<`a b`: INT>
)
USING iceberg
TBLPROPERTIES (
  'format-version' = '2',
  'write.merge.mode' = 'merge-on-read',
  'write.update.mode' = 'merge-on-read',
  'write.delete.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'tidegate.created-by' = 'it\'s a shop'
)
