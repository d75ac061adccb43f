{%- for bound in bounds | default([]) %} AND (
  {%- for low, high in bound.ranges %}{{ " OR " if not loop.first }}t.{{ bound.path | path }} BETWEEN {{ low }} AND {{ high }}{% endfor %}
  {%- if bound.nulls %}{{ " OR " if bound.ranges }}t.{{ bound.path | path }} IS NULL{% endif %})
{%- if bound.values %} AND t.{{ bound.path | path }} IN ({{ bound.values | join(", ") }}){% endif %}
{%- endfor %}
