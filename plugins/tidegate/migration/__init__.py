"""Turns the configuration of another system's sink into a pipeline file, a catalog entry, and a report of each setting.

What the sources share: how a configuration is read, what became of each setting, the draft of the file, and where the
sink has come to. One package per family of sources lies below it. It opens nothing: it asks `tidegate.sinks.world`.
"""
