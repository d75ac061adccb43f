"""The command that makes a pipeline file of a topic: `init`."""
