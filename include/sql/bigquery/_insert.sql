INSERT {% include "_columns.sql" %}
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}{{ ", " if not loop.last or values or (flag is defined and flag) }}{% endfor %}
  {%- for column in values %}s.{{ newest ~ "." if newest is defined and column in sequence }}{{ column | quoted }}{{ ", " if not loop.last or (flag is defined and flag) }}{% endfor %}
  {%- if flag is defined and flag %}s.{{ "ends_deleted" | ours }}{% endif %}
  {%- if layout | default(none) | partition_unit %}, TIMESTAMP_TRUNC(s.{{ "partition_time" | ours }}, {{ layout | partition_unit }}, 'UTC'){% endif -%}
)
