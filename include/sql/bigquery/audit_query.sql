-- 0 when the query gives exactly one row with one column, and that is true.
SELECT IF(COALESCE((
{{ query | replace("{table}", target | name) }}
), FALSE), 0, 1)
