-- An attempt whose rows are all loaded: what a view can read of it. No merge does: the row has no attempt, and no record.
INSERT INTO {{ source | name }} (op, topic, batch_number)
VALUES ('bad', {{ note | text }}, {{ batch }})
