"""From items to works, claims, dispositions and the parts of a brief. Rules only: no model, no network."""
