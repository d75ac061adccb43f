INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}{{ ", " if not loop.last or values }}{% endfor %}
  {%- for column in values %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor -%}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}{{ ", " if not loop.last or values }}{% endfor %}
  {%- for column in values %}s.{{ column | quoted }}{{ ", " if not loop.last }}{% endfor -%}
)
