"""What is read from files: scenarios, and measured tables and traces."""
