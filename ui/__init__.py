"""The two faces (console and command line), the use cases behind both, and the wiring."""
