{#- Whether the first of each pair comes after the second, by the first pair that differs; NULL is lowest. -#}
{%- macro later(pairs) -%}
{%- set a, b = pairs[0] -%}
({{ a }} > {{ b }} OR ({{ a }} IS NOT NULL AND {{ b }} IS NULL)
{%- if pairs | length > 1 %} OR (({{ a }} = {{ b }} OR ({{ a }} IS NULL AND {{ b }} IS NULL)) AND {{ later(pairs[1:]) }}){% endif %})
{%- endmacro -%}
