-- Dead letters that a person needs no more: they wait no longer, and say why.
UPDATE {{ table | name }}
SET replayed_at = current_timestamp(), stage = 'discarded', message = concat({{ note | text }}, message)
WHERE `table` = {{ target | text }} AND replayed_at IS NULL AND (
{%- for place in places %}
  {{ "OR " if not loop.first }}(topic = {{ place.topic | text }} AND partition = {{ place.partition }}
    AND topic_id {% if place.topic_id %}= {{ place.topic_id | text }}{% else %}IS NULL{% endif %} AND offset IN ({{ place.offsets | join(", ") }}))
{%- endfor %}
)
