-- Each staged record is a row beside those of the table, and a delete removes its key's earlier rows.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_after_last_delete.sql" %}
{%- endblock %}
{% block found %}s.{{ "op" | ours }} = 'd' AND {% endblock %}
