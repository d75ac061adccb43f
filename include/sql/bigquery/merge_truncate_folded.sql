-- The source table was emptied at offset {{ truncated_at }}: what its records behind that make is all that there is.
MERGE INTO {{ target | name }} AS t
USING ({% include "_folded.sql" %}
) AS s
ON FALSE
WHEN NOT MATCHED AND NOT s.{{ "ends_deleted" | ours }} THEN {% include "_insert.sql" %}

WHEN NOT MATCHED BY SOURCE THEN DELETE
