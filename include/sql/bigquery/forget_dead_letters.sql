-- What another attempt at these offsets could not read, and this one has read or set aside itself.
DELETE FROM {{ table | name }}
WHERE `table` = {{ target | text }} AND attempt <> {{ attempt | text }} AND (
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(topic = {{ topic | text }} AND `partition` = {{ partition }} AND `offset` >= {{ start }} AND `offset` < {{ end }})
{%- endfor %}
)
