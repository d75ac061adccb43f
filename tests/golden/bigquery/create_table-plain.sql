CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders` (
  `id` INT64 NOT NULL,
  `name` STRING
)
