{#- Whether one sequence is not lower than another, column by column; a column without a value is lower than any value. -#}
{%- macro columns_at_least(one, other, columns) -%}
{%- set a, b = one ~ "." ~ (columns[0] | quoted), other ~ "." ~ (columns[0] | quoted) -%}
{%- if columns | length == 1 -%}
({{ a }} >= {{ b }} OR {{ b }} IS NULL)
{%- else -%}
({{ a }} > {{ b }} OR ({{ a }} IS NOT NULL AND {{ b }} IS NULL) OR (({{ a }} = {{ b }} OR ({{ a }} IS NULL AND {{ b }} IS NULL)) AND {{ columns_at_least(one, other, columns[1:]) }}))
{%- endif -%}
{%- endmacro -%}
{%- macro at_least(one, other, columns) -%}
({{ one }} IS NOT NULL AND {{ columns_at_least(one, other, columns) }})
{%- endmacro -%}
