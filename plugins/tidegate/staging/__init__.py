"""What a stage job left behind.

Whether it may be merged, taken over by a retry, and the checkpoint of a task that gave its slot back.
"""
