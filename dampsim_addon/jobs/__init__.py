"""Long-running jobs as generators of progress steps, run by operators, the command line and scripts."""
