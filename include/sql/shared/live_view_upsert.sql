-- The last staged record of each key decides: a delete hides the row, anything else stands in its place.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_last_per_key.sql" %}
{%- endblock %}
