CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders_deletes` (
  `id` BIGINT,
  `name` STRING
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
