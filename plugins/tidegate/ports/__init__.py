"""What the steps need from outside.

Protocols of broker, destination, engine, SQL and schemas, and the context that carries them.
"""
