{#- A condition over the leaves of one key: `paths` are pairs of a column's path and of the path in the key's JSON. -#}
{%- set literal -%}
from_json({{ key_text | text }}, {{ key_type | text }}, map('mode', 'FAILFAST'))
{%- endset -%}
{% for column, leaf in paths %}{{ column | path }} <=> {{ literal }}.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}
