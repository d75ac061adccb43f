"""What other systems' sinks leave behind, as plain values: groups, notes in snapshots, announcements, tables."""
