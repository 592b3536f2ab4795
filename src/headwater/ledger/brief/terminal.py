"""The brief on a terminal, with `rich`: increments as panels with their boundary, tables for the rest."""

from __future__ import annotations

from headwater.ledger.brief import own
from headwater.ledger.brief.blocks import Page, one_line
from headwater.ledger.brief.increments import print_increment, status_text, title_text
from headwater.ledger.brief.layouts import density
from headwater.ledger.brief.phrases import say
from headwater.ledger.brief.view import View


def show(view: View, console=None) -> None:
    """Print a view. console: a `rich.console.Console`, made when None."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    out = console or Console()
    lang = view.language
    out.rule(Text(view.batch.title or say("title", lang, topic=view.batch.topic, date=view.date)))
    for i in view.increments:
        page = Page(lang)
        print_increment(page, view, i)
        body = Text()
        for b in page.blocks:
            body.append("  " * b.depth)
            if b.label:
                body.append(f"{b.label}{page.colon}", style="bold")
            last = b.label == say("boundary", lang)
            body.append(one_line(b.text) + "\n", style="yellow" if last else "")
        out.print(Panel(body, title=Text(f"{i.rank}. {i.flag} {title_text(view, i)}"), subtitle=Text(status_text(view, i)), title_align="left"))
    if view.adjacent:
        table = Table(title=say("adjacent", lang, n=len(view.adjacent)), expand=True)
        for column in ("#", say("col_item", lang), say("col_arxiv", lang), say("col_source", lang)):
            table.add_column(column, overflow="fold")
        for a in view.adjacent:
            table.add_row(*(Text(t) for t in (a.rank, a.title, a.identifier or own.adjacent_id(a, lang), a.source)))
        out.print(table)
    for c in view.contradictions:
        out.print(Text(f"⚠ {c.rank}. {own.contradiction(c, lang).replace('**', '')}"))
    for h in view.handles[:3]:
        out.print(Text(f"→ {h.rank}. {h.text or own.handle(h, lang)}", style="green"))
    if not view.batch.imported:
        out.print(Text(density(view), style="dim"))
