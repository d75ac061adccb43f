CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders` (
  `id` BIGINT NOT NULL,
  `name` STRING
)
USING iceberg
TBLPROPERTIES (
  'write.update.mode' = 'merge-on-read',
  'write.delete.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'tidegate.created-by' = 'it\'s a shop',
  'write.merge.mode' = 'copy-on-write',
  'format-version' = '2',
  'comment' = 'ours'
)
