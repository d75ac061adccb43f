"""What every Spark job needs: its session."""
