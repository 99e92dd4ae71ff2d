"""Body kinds: build simulation models from objects."""
