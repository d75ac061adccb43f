"""The demo: a small shop's database changes, the pipelines that carry them, and the proof that nothing was lost."""
