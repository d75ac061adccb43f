-- A staged record counts if its sequence is not lower than any before it, nor than that of the row and of a remembered delete.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_last_by_sequence.sql" %}
{%- endblock %}
{% block value %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- set row = "s." ~ ("row_sequence" | ours) %}
{%- if soft -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR {{ row }} >= {% include "_row_sequence.sql" %} THEN {{ newest if column in sequence else "s" }}.{{ column | quoted }}
  {%- if column in sequence %} WHEN {{ newest }} >= {% include "_row_sequence.sql" %} THEN {{ newest }}.{{ column | quoted }}{% endif %} ELSE t.{{ column | quoted }} END
{%- else -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR {{ newest }} >= {% include "_row_sequence.sql" %} THEN s.{{ column | quoted }} ELSE t.{{ column | quoted }} END
{%- endif %}
{%- endblock %}
{% block deleted %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- set row = "s." ~ ("row_sequence" | ours) -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR {{ row }} >= {% include "_row_sequence.sql" %} THEN s.{{ "ends_deleted" | ours }} WHEN {{ newest }} >= {% include "_row_sequence.sql" %} OR s.{{ "is_reset" | ours }} THEN true ELSE t.{{ flag | quoted }} END
{%- endblock %}
{% block stays %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- set row = "s." ~ ("row_sequence" | ours) -%}
{%- if soft -%}
t.{{ "there" | ours }} OR {{ row }} IS NOT NULL
{%- else -%}
CASE WHEN t.{{ "there" | ours }} IS NULL THEN {{ newest }} IS NOT NULL AND NOT s.{{ "ends_deleted" | ours }}
  {%- if deletes %} WHEN {{ newest }} >= {% include "_row_sequence.sql" %} THEN NOT s.{{ "ends_deleted" | ours }} ELSE NOT s.{{ "is_reset" | ours }}{% else %} ELSE true{% endif %} END
{%- endif %}
{%- endblock %}
