-- The partitions that have rows: one statement may change 4,000 of them.
SELECT ARRAY_AGG(DISTINCT {{ partition }} IGNORE NULLS) AS partitions
FROM {{ target | name }} AS t
WHERE TRUE{% include "_bounds.sql" %}
