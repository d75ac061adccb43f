{#- Keys with a late change, if one of their changes was forgotten: nobody knows whether it was before the late one came.
    Late is what others of its key were ahead of, in time or by their sequence. -#}
{{ "untold" | ours }} AS (
  SELECT DISTINCT{% for leaf in leaves %} s.{{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %} {{ "is_late" | ours }}
  FROM (
    SELECT *, {{ "axis" | ours }} < {{ "reached" | ours }}
      {%- if sequence %} OR {{ "kind" | ours }} <> 't' AND {{ "sequence" | ours }} < max(CASE WHEN {{ "kind" | ours }} <> 't' THEN {{ "sequence" | ours }} END) OVER (
        PARTITION BY {% include "_key.sql" %} ORDER BY {{ "at" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ){% endif %} AS {{ "is_late" | ours }}
    FROM (
{% with values = [] %}{% include "_history_timed.sql" %}{% endwith %}
    )
  ) s
  {%- if changes_snapshot_id %}
  LEFT SEMI JOIN (
    SELECT c.* FROM (
{% with values = [] %}{% include "_history_staged.sql" %}{% endwith %}
    ) c
    LEFT ANTI JOIN {{ changes | name }} VERSION AS OF {{ changes_snapshot_id }} m
    ON {% for leaf in leaves %}c.{{ leaf | path }} <=> m.{{ leaf | path }} AND {% endfor %}c.{{ "from" | ours }} = m.{{ "valid_from" | ours }} AND c.{{ "kind" | ours }} = m.{{ "kind" | ours }}
  ) c ON {% for leaf in leaves %}s.{{ leaf | path }} <=> c.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}
  {%- endif %}
  WHERE {{ "is_late" | ours }}
),
