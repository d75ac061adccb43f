{#- The rows that a merge of all that is staged would insert into an empty table; `form` names the fold. -#}
{%- set newest = "newest" | ours -%}
{%- set deleted = "s." ~ (flag | quoted) if form == "soft_delete" else "s." ~ ("ends_deleted" | ours) -%}
    SELECT
      {%- for column, _ in keys %} s.{{ column | quoted }},{% endfor %}
      {%- for column in values %} s.{{ newest ~ "." if form == "sequenced" and flag and column in sequence }}{{ column | quoted }},{% endfor %}
      {%- if flag and shows_flag %} {{ deleted }} AS {{ flag | quoted }},{% endif %}
      -1L AS {{ "side" | ours }}
    FROM (
{% if form == "folded" %}{% include "_folded.sql" %}
{% elif form == "sequenced" %}{% include "_last_by_sequence.sql" %}
{% elif form == "soft_delete" %}{% include "_last_with_flag.sql" %}
{% elif form == "history" %}  SELECT *, {{ "from" | ours }} AS {{ valid_from | quoted }}, {{ "to" | ours }} AS {{ valid_to | quoted }}, {{ "to" | ours }} IS NULL AS {{ is_current | quoted }} FROM (
{% with values = written %}{% include "_history_versions.sql" %}{% endwith %}
  )
{% else %}{% include "_last_per_key.sql" %}
{% endif %}
    ) s
{%- if form == "folded" %}
    WHERE {% if flag %}s.{{ "is_row" | ours }}{% else %}NOT s.{{ "ends_deleted" | ours }}{% endif %}
{%- elif form == "sequenced" %}
    WHERE {% if flag %}s.{{ "row_sequence" | ours }} IS NOT NULL{% else %}s.{{ newest }} IS NOT NULL AND NOT s.{{ "ends_deleted" | ours }}{% endif %}
{%- elif form == "history" %}
    WHERE s.{{ "opens" | ours }}
{%- else %}
    WHERE s.{{ "op" | ours }} <> 'd'
{%- endif %}
