"""What stands where: the columns, position, queue and history of a table, and the log behind them."""
