{% for leaf in leaves %}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
