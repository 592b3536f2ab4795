"""headwater models: the models that are known by name."""

from __future__ import annotations


def models() -> None:
    """List known models: name, licence, whether it is installed, and how to install it."""
    from headwater.model.catalog import CATALOG, find_parts

    for entry in CATALOG.values():
        there = find_parts([name for name, _ in entry.distributions], entry.pattern) is not None
        print(f"{entry.name:28} {entry.nbytes / 2**20:6,.0f} MiB  {entry.licence:20} {'installed' if there else 'not installed'}")
        print(f"{'':28} {entry.about}")
        if not there:
            print(f"{'':28} {entry.install}")
        if entry.terms:
            print(f"{'':28} asks for --accept-licence; terms: {entry.terms}")
