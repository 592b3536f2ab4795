"""headwater policies: the rooms, their residents and parameters."""

from __future__ import annotations

import typer


def policies(room: str = typer.Argument(None, help="Only this room.")) -> None:
    """List the rooms (each a question), their residents and the parameters that --ROOM name:parameter=value sets."""
    import dataclasses
    import importlib
    import pkgutil

    from headwater import policies as package
    from headwater.core.errors import UserInputError
    from headwater.core.registry import residents

    rooms = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg)
    if room is not None and room not in rooms:
        raise UserInputError(f"policies: no room '{room}'; rooms: {', '.join(rooms)}", field="room")
    for name in [room] if room else rooms:
        question = (importlib.import_module(f"headwater.policies.{name}").__doc__ or "").strip()
        typer.echo(f"{name}: {question}")
        for resident, cls in residents(name).items():
            idea = (cls.__doc__ or "").strip().splitlines()[0]
            typer.echo(f"  {resident:<10} {idea}")
            shown = [f"{f.name}={f.default!r}" for f in dataclasses.fields(cls) if f.init]
            if shown:
                typer.echo(f"  {'':<10} parameters: {', '.join(shown)}")
        typer.echo("")
