"""The commands of the command line, one module for each group. Heavy modules load inside the commands."""
