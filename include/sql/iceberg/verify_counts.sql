-- How many keys of the differing buckets are of each kind.
WITH {% include "_compared.sql" %}
SELECT to_json(named_struct(
  {%- for kind in kinds %}
  {{ kind | text }}, count_if({{ "kind" | ours }} = {{ kind | text }}){{ "," if not loop.last }}
  {%- endfor %}
)) FROM {{ "compared" | ours }}
