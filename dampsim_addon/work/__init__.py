"""Jobs as generators of steps: progress, threads, cancellation, the modal operator that runs them, and redraws."""
