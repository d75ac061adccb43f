CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders_deletes` (
  `id` INT64,
  `name` STRING
)
OPTIONS (labels = [('tidegate-kind', 'deletes'), ('tidegate-owner', '6d209f445b2d1839da3327b658432c9dc00bfcea'), ('tidegate-format', '1')])
