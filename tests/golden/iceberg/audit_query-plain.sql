-- 0 when the query gives exactly one row with one column, and that is true; 1 for false. Anything else says what it gives:
-- 2 no row or several, 3 NULL, 4 another type. Nothing is taken for a boolean that is none, as ANSI takes a text.
SELECT CASE
  WHEN count(1) <> 1 THEN 2L
  WHEN max(CAST(`_tidegate_holds` AS STRING)) IS NULL THEN 3L
  WHEN any_value(typeof(`_tidegate_holds`)) <> 'boolean' THEN 4L
  WHEN max(CAST(`_tidegate_holds` AS STRING)) = 'true' THEN 0L
  ELSE 1L
END FROM (
SELECT count(*) > 0 FROM `lake`.`shop`.`orders`.`branch_b` -- x
) AS `_tidegate_answer`(`_tidegate_holds`)
