"""The types of destination: what each one can do, how it is declared and checked, and how its ports are built."""
