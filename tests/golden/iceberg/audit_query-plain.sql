-- 0 when the query gives exactly one row with one column, and that is true.
SELECT CASE WHEN count(1) = 1 AND bool_and(coalesce(`_tidegate_holds`, false)) THEN 0L ELSE 1L END FROM (
SELECT count(*) > 0 FROM `lake`.`shop`.`orders`.`branch_b` -- x
) AS `_tidegate_answer`(`_tidegate_holds`)
