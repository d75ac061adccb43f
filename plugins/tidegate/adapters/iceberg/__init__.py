"""Apache Iceberg through PyIceberg: the destination port, a publication's snapshots, leftovers."""
