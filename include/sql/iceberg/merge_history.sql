-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
{% include "_history_versions.sql" %}
) s
ON {% include "_on_key.sql" %} AND t.{{ valid_from | quoted }} = s.{{ "from" | ours }}
WHEN MATCHED AND NOT s.{{ "opens" | ours }} THEN DELETE
WHEN MATCHED AND NOT (
  t.{{ valid_to | quoted }} <=> s.{{ "to" | ours }}
  {%- for column in written %}
  AND {{ column | comparable("t") }} <=> {{ column | comparable("s") }}
  {%- endfor %}
) THEN UPDATE SET
  {%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
  {%- endfor %}
  t.{{ valid_to | quoted }} = s.{{ "to" | ours }},
  t.{{ is_current | quoted }} = s.{{ "to" | ours }} IS NULL
WHEN NOT MATCHED AND s.{{ "opens" | ours }} THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}{{ valid_from | quoted }}, {{ valid_to | quoted }}, {{ is_current | quoted -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}s.{{ "from" | ours }}, s.{{ "to" | ours }}, s.{{ "to" | ours }} IS NULL)
