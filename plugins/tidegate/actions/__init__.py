"""What people do to a pipeline that stands still: each action is previewed first, then done exactly as shown."""
