"""A field of Protobuf: messages decoded on Spark's Python workers, and what their bytes say beside them."""
