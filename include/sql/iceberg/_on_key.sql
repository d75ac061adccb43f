{%- set never_null = bounds | default([]) | rejectattr("nulls") | map(attribute="path") | list -%}
{% for leaf in leaves %}t.{{ leaf | path }} {{ "=" if leaf in never_null else "<=>" }} s.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}{% include "_bounds.sql" %}
