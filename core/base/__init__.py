"""Array types, errors and wording, progress and kept results of computations, and files that anyone may have made."""
