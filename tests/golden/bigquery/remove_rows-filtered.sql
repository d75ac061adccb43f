-- The source table was emptied, and so is this one; what its later records make is written by the next statement.
DELETE FROM `my-project`.`shop`.`orders` AS t
WHERE TRUE
  AND (t.`at` BETWEEN TIMESTAMP '2026-01-01 00:00:00+00:00' AND TIMESTAMP '2026-01-03 23:59:59.999999+00:00' OR t.`at` BETWEEN TIMESTAMP '2026-01-09 00:00:00+00:00' AND TIMESTAMP '2026-01-09 23:59:59.999999+00:00' OR t.`at` IS NULL)
