attempt {% if attempts | length == 1 %}<> {{ attempts[0] | text }}{% else %}NOT IN ({{ attempts | map("text") | join(", ") }}){% endif -%}
