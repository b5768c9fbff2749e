"""Renders files of templates/. Not in assets, so that jinja2 is loaded only to render."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from rigops import assets


def render(template: str, **values: object) -> str:
    environment = Environment(
        loader=FileSystemLoader(assets.find("templates")),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html.j2",)),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(values)
