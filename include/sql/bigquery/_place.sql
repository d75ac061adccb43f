{{ "place" | ours }} AS place, {{ "topic" | ours }} AS topic, {{ "partition" | ours }} AS `partition`, {{ "offset" | ours }} AS `offset`, {{ "timestamp" | ours }} AS `timestamp`
