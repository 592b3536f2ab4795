"""Twenty varied prompts for numeric comparisons, and one longer than the window of Gemma's local layers."""

PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "Once upon a time, in a village by the sea,",
    "Q: What is 17 * 23?\nA:",
    "The three laws of thermodynamics are:\n1.",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "Le chat est assis sur",
    "Die Hauptstadt von Deutschland ist",
    "人工智能的未来",
    "El perro corre por el parque y",
    "import numpy as np\n\ndef softmax(x):\n",
    "Dear Sir or Madam,\n\nI am writing to",
    "To make a good cup of tea, first",
    "{\"name\": \"Ada\", \"born\": 1815, \"field\":",
    "The mitochondria is the powerhouse of",
    "In 1969, Neil Armstrong",
    "The quick brown fox jumps over the lazy dog. The dog",
    "<html>\n<head>\n<title>",
    "Roses are red,\nViolets are blue,\n",
    "The opposite of hot is cold. The opposite of up is",
)


def long_prompt(sentences: int = 60) -> str:
    """A text with a thread through it: some 1,100 tokens at 60 sentences."""
    places = ("the harbour", "a mill", "the old bridge", "a quiet square", "the northern gate", "an orchard", "the library")
    things = ("a letter", "a brass key", "two coins", "a folded map", "a lantern", "a red thread")
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return " ".join(
        f"On {days[i % 7]} of week {i // 7 + 1}, the traveller reached {places[i * 3 % 7]} and left {things[i * 5 % 6]} there."
        for i in range(sentences)
    ) + " On the next day, the traveller"
