-- One row for each change: what a key was from when on, or when it was deleted. Facts of the log, so that writing them
-- again does no harm. A record that is read again counts as it is read now. A delete that tells no time of its own (kind t) ends what its key had come to.
MERGE INTO {{ changes | name }}.{{ branch | quoted }} t
USING (
{% include "_history_staged.sql" %}
) s
ON {% include "_on_key.sql" %} AND t.{{ "valid_from" | ours }} = s.{{ "from" | ours }} AND t.{{ "kind" | ours }} = s.{{ "kind" | ours }}
WHEN MATCHED AND s.{{ "order" | ours }} >= {% if sequence %}struct(CASE WHEN t.{{ "kind" | ours }} <> 't' THEN t.{{ "sequence" | ours }} END AS sequence, {% endif %}struct(t.{{ "offset" | ours }} AS offset, t.{{ "topic" | ours }} AS topic, t.{{ "partition" | ours }} AS partition, t.{{ "i" | ours }} AS i){% if sequence %} AS at){% endif %} THEN UPDATE SET
  {%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
  {%- endfor %}
  {%- if sequence %}
  t.{{ "sequence" | ours }} = s.{{ "sequence" | ours }},
  {%- endif %}
  t.{{ "topic" | ours }} = s.{{ "topic" | ours }},
  t.{{ "partition" | ours }} = s.{{ "at" | ours }}.partition,
  t.{{ "offset" | ours }} = s.{{ "offset" | ours }},
  t.{{ "i" | ours }} = s.{{ "i" | ours }},
  t.{{ "timestamp" | ours }} = s.{{ "timestamp" | ours }}
WHEN NOT MATCHED THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}
  {%- if sequence %}{{ "sequence" | ours }}, {% endif %}{{ "valid_from" | ours }}, {{ "kind" | ours }}, {{ "topic" | ours }}, {{ "partition" | ours }}, {{ "offset" | ours }}, {{ "i" | ours }}, {{ "timestamp" | ours -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}
  {%- if sequence %}s.{{ "sequence" | ours }}, {% endif %}s.{{ "from" | ours }}, s.{{ "kind" | ours }}, s.{{ "topic" | ours }}, s.{{ "at" | ours }}.partition, s.{{ "offset" | ours }}, s.{{ "i" | ours }}, s.{{ "timestamp" | ours }})
