"""Who is admitted, who is next, how many tokens, who steps aside."""
