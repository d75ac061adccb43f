UPDATE SET{% for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }}{{ "," if not loop.last }}
{%- endfor %}
