-- Writes the keys that differ as the log says: a missing row comes, a surplus one goes, another gets the log's values.
-- Columns that the pipeline does not know keep theirs.
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
  WITH {% include "_compared.sql" %}
  SELECT
    {%- for leaf in leaves %} {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    {{ "kind" | ours }}, {{ "log" | ours }}.*
  FROM {{ "compared" | ours }}
  WHERE {{ "kind" | ours }} IN ('missing', 'surplus', 'different')
) s
ON {% for leaf in leaves %}t.{{ leaf | path }} <=> s.{{ ("key_" ~ loop.index) | ours }}{{ " AND " if not loop.last }}{% endfor %}
WHEN MATCHED AND s.{{ "kind" | ours }} = 'surplus' THEN DELETE
{%- with values = written %}
{%- if written %}
WHEN MATCHED THEN {% include "_update.sql" %}
{%- endif %}
WHEN NOT MATCHED THEN {% include "_insert.sql" %}
{%- endwith %}
