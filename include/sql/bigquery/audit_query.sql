-- 0 when the query gives exactly one row with one column, and that is true.
SELECT IF(COALESCE((
{{ query }}
), FALSE), 0, 1)
