-- The last staged record of each key says whether the row counts as deleted, its last upsert what stands in it.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_last_with_flag.sql" %}
{%- endblock %}
{% block value %}CASE WHEN s.{{ "op" | ours }} = 'd' THEN t.{{ column | quoted }} ELSE s.{{ column | quoted }} END{% endblock %}
{% block deleted %}s.{{ "op" | ours }} = 'd' OR s.{{ flag | quoted }}{% endblock %}
{% block stays %}s.{{ "op" | ours }} <> 'd' OR t.{{ "there" | ours }}{% endblock %}
