CREATE TABLE IF NOT EXISTS `my-project`.`my shop`.`or\`ders_deletes` (
  `order id` STRUCT<`a b` INT64>,
  `select` STRUCT<`a b` INT64>,
  `a\`b` STRUCT<`a b` INT64>,
  `c.d` STRUCT<`a b` INT64>,
  `größe` STRUCT<`a b` INT64>,
  `it's` STRUCT<`a b` INT64>,
  `名前` STRUCT<`a b` INT64>
)
OPTIONS (labels = [('tidegate-kind', 'deletes'), ('tidegate-owner', '6d209f445b2d1839da3327b658432c9dc00bfcea'), ('tidegate-format', '1')])
