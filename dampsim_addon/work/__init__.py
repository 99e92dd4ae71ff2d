"""Work in steps: progress, threads, and the modal operator that runs it."""
