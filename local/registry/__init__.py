"""The schema registry of a stack: Apicurio Registry, which speaks Confluent's protocol and its own."""
