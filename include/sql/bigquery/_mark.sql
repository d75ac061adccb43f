{% for key, value in own.labels.items() %}({{ key | text }}, {{ value | text }}){{ ", " if not loop.last }}{% endfor %}
