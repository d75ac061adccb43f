"""A field of JSON.

Objects and their columns, numbers as they are written, Connect's envelope, MongoDB's extended JSON.
"""
