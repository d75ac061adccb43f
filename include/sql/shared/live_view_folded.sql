-- A key's staged records are folded column by column: each column has the last value that a record gave it, else what the
-- row has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_folded.sql" %}
{%- endblock %}
{% block value %}
{%- set sequence = given[column][1][0] if given[column][0] == "by_sequence" else none -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR s.{{ ("given_" ~ (values.index(column) + 1)) | ours }}
  {%- if sequence %} AND coalesce(s.{{ sequence | quoted }} >= t.{{ sequence | quoted }}, true){% endif %}
  {%- if not flag %} OR s.{{ "is_reset" | ours }}{% endif %} THEN s.{{ column | quoted }} ELSE t.{{ column | quoted }} END
{%- endblock %}
{% block deleted %}s.{{ "ends_deleted" | ours }} OR NOT s.{{ "is_row" | ours }}{% endblock %}
{% block stays %}
{%- if flag -%}
t.{{ "there" | ours }} OR s.{{ "is_row" | ours }}
{%- else -%}
NOT s.{{ "ends_deleted" | ours }}
{%- endif %}
{%- endblock %}
