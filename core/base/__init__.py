"""Array types, errors, and memoised properties."""
