{% for leaf in leaves %}(t.{{ leaf | path }} = s.{{ leaf | path }} OR (t.{{ leaf | path }} IS NULL AND s.{{ leaf | path }} IS NULL)){{ " AND " if not loop.last }}{% endfor %}
