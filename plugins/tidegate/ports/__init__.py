"""What the steps need from outside: broker, destination, engine, SQL and schemas, and the session with all of them."""
