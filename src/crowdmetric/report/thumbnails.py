"""Small pictures of items inside the page, so that it stays one file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

__all__ = ["thumbnails"]

# Longest side of a small picture, in pixels, and the largest file that is used as it is where Pillow is missing.
SIDE, SMALL = 96, 30_000
# What files of these kinds are called in a page.
KINDS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}


def thumbnails(files: Sequence[Path | None] | None) -> list[str | None] | None:
    """Return small pictures as data addresses, None for an item without one; None where no item has one."""
    if files is None:
        return None
    found = [None if file is None else _thumbnail(file) for file in files]
    return found if any(found) else None


def _thumbnail(file: Path) -> str | None:
    """Return one small picture; None if the file is no picture, or too large to be used without Pillow."""
    if file.suffix.lower() not in KINDS:
        return None
    try:
        from PIL import Image  # noqa: PLC0415  comes with matplotlib, and is not needed without pictures
    except ImportError:
        content = file.read_bytes() if file.stat().st_size <= SMALL else None
        return None if content is None else _address(content, KINDS[file.suffix.lower()])
    try:
        with Image.open(file) as image:
            small: Any = image.convert("RGBA")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    small.thumbnail((SIDE, SIDE))
    paper = Image.new("RGB", small.size, "white")
    paper.paste(small, mask=small.getchannel("A"))
    out = BytesIO()
    paper.save(out, "JPEG", quality=80)
    return _address(out.getvalue(), "jpeg")


def _address(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
