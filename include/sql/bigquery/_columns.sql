(
  {%- for column, _ in keys %}{{ column | quoted }}{{ ", " if not loop.last or values or (flag is defined and flag) }}{% endfor %}
  {%- for column in values %}{{ column | quoted }}{{ ", " if not loop.last or (flag is defined and flag) }}{% endfor %}
  {%- if flag is defined and flag %}{{ flag | quoted }}{% endif %}
  {%- if layout | default(none) | partition_unit %}, _PARTITIONTIME{% endif -%}
)
