"""A pipeline's tables.

Which there are, which columns each must have, whether the destination can take them, and their batch history.
"""
