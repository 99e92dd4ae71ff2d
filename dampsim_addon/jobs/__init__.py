"""Work that takes time, as generators of steps: operators, the command line and scripts run it."""
