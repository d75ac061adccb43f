"""One package per system outside; here only what several share: routing by catalog, SQL templates, connections."""
