CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders` (
  `id` BIGINT NOT NULL,
  `name` STRING
)
USING iceberg
TBLPROPERTIES (
  'format-version' = '3',
  'write.merge.mode' = 'merge-on-read',
  'write.update.mode' = 'merge-on-read',
  'write.delete.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'tidegate.created-by' = 'it\'s a shop'
)
