-- What attempts at these offsets could not read that were never published: this one has read it or set it aside itself.
-- A letter of another topic of the same name, deleted since, is none of them.
DELETE FROM {{ table | name }}
WHERE `table` = {{ target | text }} AND {% include "_of_others.sql" %} AND batch > {{ published }} AND (
{%- if ranges | length > 20 %}
{% include "_named_ranges.sql" %} AND (named.named_id IS NULL OR topic_id IS NULL OR topic_id = named.named_id)
)
{%- else %}
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(topic = {{ topic | text }} AND `partition` = {{ partition }} AND `offset` >= {{ start }} AND `offset` < {{ end }} {%- if ids.get(topic) %} AND (topic_id IS NULL OR topic_id = {{ ids[topic] | text }}) {%- endif %})
{%- endfor %}
{%- endif %}
)
