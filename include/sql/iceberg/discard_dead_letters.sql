-- Dead letters that a person needs no more: they wait no longer, and say why.
UPDATE {{ table | name }}
SET replayed_at = current_timestamp(), stage = 'discarded', message = concat({{ note | text }}, message)
WHERE `table` = {{ target | text }} AND replayed_at IS NULL AND (
{%- for topic, partition, offset, id in places %}
  {{ "OR " if not loop.first }}(topic = {{ topic | text }} AND partition = {{ partition }} AND offset = {{ offset }}{% if id %} AND topic_id = {{ id | text }}{% else %} AND topic_id IS NULL{% endif %})
{%- endfor %}
)
