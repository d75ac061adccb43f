{# Statements that make tables cannot stand in a transaction, and do no harm before it. -#}
{%- for statement in before %}
{{ statement }};
{% endfor %}
-- All or nothing: an error ends the script, and BigQuery rolls a transaction back that was not committed.
BEGIN TRANSACTION;

-- First of all the position: who is too late, or meets another publish, ends here and has read nothing.
UPDATE {{ positions | name }}
SET version = {{ version + 1 }}, attempt = {{ attempt | text }}, properties = {{ properties | text }}, changed = CURRENT_TIMESTAMP()
WHERE pipeline = {{ pipeline | text }} AND version = {{ version }};

ASSERT (
  SELECT COUNT(*) FROM {{ positions | name }}
  WHERE pipeline = {{ pipeline | text }} AND version = {{ version + 1 }} AND attempt = {{ attempt | text }}
) = 1 AS {{ moved | text }};
{% for statement in statements %}
{{ statement }};
{% endfor %}
{%- for question, told in audits %}
ASSERT (
{{ question }}
) = 0 AS {{ told | text }};
{% endfor %}
COMMIT TRANSACTION;
