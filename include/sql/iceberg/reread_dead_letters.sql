-- What published batches set aside of these offsets of the same topic, and this attempt has read: kept, and marked.
-- What a replay has brought in of them is no longer the replay's: a rollback of that takes nothing away.
UPDATE {{ table | name }} SET replayed_at = coalesce(replayed_at, current_timestamp()), replayed_by = NULL
WHERE `table` = {{ target | text }} AND {% include "_of_others.sql" %} AND batch <= {{ published }} AND (replayed_at IS NULL OR replayed_by IS NOT NULL) AND (
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(topic = {{ topic | text }} AND partition = {{ partition }} AND offset >= {{ start }} AND offset < {{ end }} AND topic_id = {{ ids[topic] | text }})
{%- endfor %}
)
