"""Response to contact: impacts, the contact solve and its convergence, and truncated steps."""
