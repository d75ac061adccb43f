{%- set known = ids | dictsort | selectattr(1) | list -%}
{% if known %}CASE topic{% for topic, id in known %} WHEN {{ topic | text }} THEN {{ id | text }}{% endfor %} END{% else %}CAST(NULL AS STRING){% endif %}
