CALL {{ catalog | quoted }}.system.remove_orphan_files(
  table => {{ table | name | text }},
  older_than => TIMESTAMP {{ older_than | text }}
{%- if prefix_listing %},
  prefix_listing => true
{%- endif %}
)
