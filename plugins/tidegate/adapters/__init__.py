"""One package per system outside; here only what several of them share.

Routing by catalog, SQL templates, connections.
"""
