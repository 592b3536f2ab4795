"""Briefs as views of the ledger: layouts D (daily) and B (batch), Chinese and English, Markdown, text, JSON and terminal."""
