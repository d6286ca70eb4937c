"""The domain records, the store, the imports and the releases. Imports none of the other packages."""
