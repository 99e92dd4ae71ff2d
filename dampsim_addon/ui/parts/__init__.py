"""Parts with dials of their own."""
