-- 0 when the query gives exactly one row with one column, and that is true.
SELECT IF(COALESCE((
SELECT count(*) > 0 FROM `my-project`.`shop`.`orders` -- x
), FALSE), 0, 1)
