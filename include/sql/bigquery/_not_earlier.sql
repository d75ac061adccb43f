{#- Whether the first of each pair comes after the second, by the first pair that differs, or none does; NULL is lowest. -#}
{%- macro not_earlier(pairs) -%}
{%- set a, b = pairs[0] -%}
({{ a }} > {{ b }} OR ({{ a }} IS NOT NULL AND {{ b }} IS NULL) OR {% if pairs | length > 1 %}({% endif %}({{ a }} = {{ b }} OR ({{ a }} IS NULL AND {{ b }} IS NULL))
  {%- if pairs | length > 1 %} AND {{ not_earlier(pairs[1:]) }}){% endif %})
{%- endmacro -%}
