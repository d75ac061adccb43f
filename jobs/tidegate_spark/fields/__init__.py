"""One field of a record made a column without loss: Avro, JSON, Protobuf and text."""
