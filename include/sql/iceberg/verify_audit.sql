-- How many of the rows that a repair has written on its branch break the condition; NULL breaks it too.
SELECT count(1) FROM (
  SELECT t.* FROM {{ target | name }}.{{ branch | quoted }} t LEFT SEMI JOIN (
    WITH {% include "_compared.sql" %}
    SELECT{% for leaf in leaves %} {{ ("key_" ~ loop.index) | ours }}{{ "," if not loop.last }}{% endfor %}
    FROM {{ "compared" | ours }}
    WHERE {{ "kind" | ours }} IN ('missing', 'different')
  ) s ON {% for leaf in leaves %}t.{{ leaf | path }} <=> s.{{ ("key_" ~ loop.index) | ours }}{{ " AND " if not loop.last }}{% endfor %}
)
WHERE NOT coalesce((
{{ condition }}
), false)
