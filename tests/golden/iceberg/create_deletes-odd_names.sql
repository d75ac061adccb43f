CREATE TABLE IF NOT EXISTS `lake`.`my shop`.`or``ders_deletes` (
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
  'tidegate.kind' = 'deletes',
  'tidegate.table' = 'shop.it\'s',
  'tidegate.format' = '1',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '10'
)
