-- How many keys of the differing buckets are of each kind.
WITH {% include "_compared.sql" %}
SELECT to_json(named_struct(
  {%- for kind in kinds %}
  {{ kind | text }}, count_if({{ "kind" | ours }} = {{ kind | text }}),
  {%- endfor %}
  'copied', count_if({{ "kind" | ours }} = 'surplus' AND {{ "expected" | ours }} = 1)
)) FROM {{ "compared" | ours }}
