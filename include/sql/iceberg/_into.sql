INSERT {{ "OVERWRITE" if truncated_at is defined else "INTO" }} {{ target | name }}.{{ branch | quoted }} (
  {%- for column, _ in keys %}{{ column | quoted }}{{ ", " if not loop.last or values }}{% endfor %}
  {%- for column in values %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor -%}
)
SELECT
  {%- for column, _ in keys %} {{ column | quoted }}{{ "," if not loop.last or values }}{% endfor %}
  {%- for column in values %} {{ column | quoted }}{{ "," if not loop.last }}{% endfor %}
