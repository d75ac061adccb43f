-- Each staged record is a row beside those of the table.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_staged.sql" %}
{%- endblock %}
