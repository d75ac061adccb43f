-- 0 when the query gives exactly one row with one column, and that is true.
SELECT CASE WHEN count(1) = 1 AND bool_and(coalesce({{ "holds" | ours }}, false)) THEN 0L ELSE 1L END FROM (
{{ query | replace("{table}", (target | name) ~ "." ~ (branch | quoted)) }}
) AS {{ "answer" | ours }}({{ "holds" | ours }})
