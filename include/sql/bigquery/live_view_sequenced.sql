-- A staged record counts if its sequence is not lower than any before it, nor than that of the row and of a remembered delete.
{% extends "_live_view.sql" %}
{% block changes %}
{%- set is_live = true %}
{%- include "_last_by_sequence.sql" %}
{%- endblock %}
{% block value %}
{%- from "_at_least.sql" import at_least %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- set row = "s." ~ ("row_sequence" | ours) %}
{%- if soft -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR {{ at_least(row, "t", sequence) }} THEN {{ newest if column in sequence else "s" }}.{{ column | quoted }}
  {%- if column in sequence %} WHEN {{ at_least(newest, "t", sequence) }} THEN {{ newest }}.{{ column | quoted }}{% endif %} ELSE t.{{ column | quoted }} END
{%- else -%}
IF(t.{{ "there" | ours }} IS NULL OR {{ at_least(newest, "t", sequence) }}, s.{{ column | quoted }}, t.{{ column | quoted }})
{%- endif %}
{%- endblock %}
{% block deleted %}
{%- from "_at_least.sql" import at_least %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- set row = "s." ~ ("row_sequence" | ours) -%}
CASE WHEN t.{{ "there" | ours }} IS NULL OR {{ at_least(row, "t", sequence) }} THEN s.{{ "ends_deleted" | ours }} WHEN {{ at_least(newest, "t", sequence) }} OR s.{{ "is_reset" | ours }} THEN TRUE ELSE t.{{ flag | quoted }} END
{%- endblock %}
{% block stays %}
{%- from "_at_least.sql" import at_least %}
{%- set newest = "s." ~ ("newest" | ours) %}
{%- if soft -%}
t.{{ "there" | ours }} OR s.{{ "row_sequence" | ours }} IS NOT NULL
{%- else -%}
CASE WHEN t.{{ "there" | ours }} IS NULL THEN {{ newest }} IS NOT NULL AND NOT s.{{ "ends_deleted" | ours }}
  {%- if deletes %} WHEN {{ at_least(newest, "t", sequence) }} THEN NOT s.{{ "ends_deleted" | ours }} ELSE NOT s.{{ "is_reset" | ours }}{% else %} ELSE TRUE{% endif %} END
{%- endif %}
{%- endblock %}
