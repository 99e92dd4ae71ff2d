"""What frames spend most of their time on, compiled; numpy does the same where it is not there."""
