{#- Whether a dead letter is of the topic that is read, not of one of the same name, deleted since: true where ids are unknown. -#}
NOT coalesce(topic_id <> {% include "_topic_id.sql" %}, false)
