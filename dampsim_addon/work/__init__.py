"""Jobs as generators of steps: progress, threads, cancellation, and the modal operator that runs them."""
