INSERT INTO {{ target | name }} {% include "_columns.sql" %}
SELECT
  {%- for column, _ in keys %} {{ column | quoted }}{{ "," if not loop.last or values }}{% endfor %}
  {%- for column in values %} {{ column | quoted }}{{ "," if not loop.last }}{% endfor %}
  {%- if layout | default(none) | partition_unit %}, TIMESTAMP_TRUNC({{ "partition_time" | ours }}, {{ layout | partition_unit }}, 'UTC'){% endif %}
