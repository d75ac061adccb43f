-- 0 when the query gives exactly one row with one column, and that is true.
SELECT IF(COALESCE((
SELECT count(*) > 0 FROM `lake`.`shop`.`orders`.`branch_b` -- x
), FALSE), 0, 1)
