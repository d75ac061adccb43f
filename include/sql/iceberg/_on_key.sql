{% for leaf in leaves %}t.{{ leaf | path }} <=> s.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}{% include "_bounds.sql" %}
