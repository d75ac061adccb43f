"""MessagePack maps read along the shape of their columns, on Spark's Python workers."""
