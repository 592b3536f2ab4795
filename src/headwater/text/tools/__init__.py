"""Tool calls in generated text: one streaming parser per format."""
