-- The source table was emptied, and so is this one; what its later records make is written by the next statement.
DELETE FROM {{ target | name }} AS t
WHERE TRUE{% include "_bounds.sql" %}
