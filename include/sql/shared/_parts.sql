{#- An attempt is of one batch only, so two lists name the pairs. A constant of the partition column lets files be left out. -#}
{%- if parts | length == 1 -%}
batch_number = {{ parts[0][0] }} AND attempt = {{ parts[0][1] | text }}
{%- else -%}
batch_number IN ({{ parts | map("first") | join(", ") }}) AND attempt IN ({{ parts | map("last") | map("text") | join(", ") }})
{%- endif -%}
