CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders` (
  `id` INT64,
  `order id` STRING,
  `name` STRING
)
