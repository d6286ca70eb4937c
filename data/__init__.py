"""The nouns, the store, the imports and the releases. Imports nothing of the other packages."""
