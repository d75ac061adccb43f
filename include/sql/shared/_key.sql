{% for leaf in leaves %}{{ of | default("") }}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
