-- What published batches set aside of these offsets of the same topic, and this attempt has read: kept, and marked.
UPDATE {{ table | name }} SET replayed_at = CURRENT_TIMESTAMP()
WHERE `table` = {{ target | text }} AND attempt <> {{ attempt | text }} AND batch <= {{ published }} AND replayed_at IS NULL AND (
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(topic = {{ topic | text }} AND `partition` = {{ partition }} AND `offset` >= {{ start }} AND `offset` < {{ end }} AND topic_id = {{ ids[topic] | text }})
{%- endfor %}
)
