"""What goes in and what comes out, as the documentation shows it."""
