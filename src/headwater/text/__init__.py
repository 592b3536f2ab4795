"""Text on both sides of the model: tokenizer, chat template, streaming decoder, stop strings, reasoning and tool parsers, grammar."""
