"""What people do to a pipeline that stands still: each action shown first, then done as shown, for every way to ask."""
