"""From files to records: decoding, kinds and producers, items, feeds, cards, queues, documents, earlier briefs."""
