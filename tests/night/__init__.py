"""The operator's night: failures provoked in the local stack, what the page says, and whether its way out works."""
