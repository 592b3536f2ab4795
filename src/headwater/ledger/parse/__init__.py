"""Reading text without understanding it: identifiers, quantities and the structure of briefs, each with its place."""
