"""What people and machines see: status, overview, details, health, metrics and backlog."""
