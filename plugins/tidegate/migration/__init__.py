"""Translates another system's sink into a pipeline file, a catalog entry, and a report of each setting.

Shared by all sources: reading a configuration, recording what became of each setting, drafting the file, and finding
the sink's position. Each family of sources has a package below. This package opens no connection: it asks
`tidegate.sinks.world`.
"""
