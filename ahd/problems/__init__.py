"""One problem a file; each has a factory `problem()`."""
