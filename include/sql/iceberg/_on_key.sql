{% for column, _ in keys %}t.{{ column | quoted }} <=> s.{{ column | quoted }}{{ " AND " if not loop.last }}{% endfor %}
