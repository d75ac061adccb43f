{#- The staged rows; where later records decide too, those of which no later record has the key. -#}
{% if guarded is defined %}    SELECT s.* FROM (
{% include "_staged.sql" %}
    ) s
    WHERE true
{% include "_no_later_record.sql" %}
{%- else -%}
{% include "_staged.sql" %}
{%- endif %}
