-- The place of the record that the key's row comes from by its sequence, and that of the delete that ends it.
SELECT to_json(max(struct(
  {{ "topic" | ours }} AS topic, {{ "offset" | ours }} AS offset, {{ "ends_deleted" | ours }} AS is_deleted,
  CASE WHEN {{ "last" | ours }}.op = 'd' AND NOT coalesce({{ "reset" | ours }}.at > {{ "last" | ours }}.at, false)
    THEN {{ "last" | ours }}.at ELSE {{ "reset" | ours }}.at END AS deleted_at
))) FROM (
{% include "_last_by_sequence.sql" %}
)
