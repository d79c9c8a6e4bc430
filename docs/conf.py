"""The site: Sphinx with Markdown pages, an API reference from docstrings, and examples that are run when it is built.

``make docs`` builds it into ``site/`` without the network; a warning is an error.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "extensions"))
os.environ.setdefault("MPLBACKEND", "Agg")

from crowdmetric import __version__  # noqa: E402
from crowdmetric.errors import CrowdmetricWarning  # noqa: E402

# An example that makes the library warn teaches the wrong thing: the warning stops the build.
warnings.filterwarnings("error", category=CrowdmetricWarning)

project = "crowdmetric"
author = "the crowdmetric developers"
project_copyright = "the crowdmetric developers, BSD 3-Clause License"
version = release = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["**/pictures/*.py"]
templates_path = ["_templates"]
root_doc = "index"

# ------------------------------------------------------------------------------------------------ Markdown

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Names in single backquotes link to their page in the API reference; anything else is set as code.
default_role = "py:obj"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ------------------------------------------------------------------------------------------- API reference

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say what each parameter is, with its shape
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"  # "fit()" fits beside the page, "PopulationMetric.fit()" does not
# Small inventories that stand beside this file: no build asks another server for anything.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", "inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable/", "inventories/numpy.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "inventories/scipy.inv"),
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/sklearn.inv"),
}

# ------------------------------------------------------------------------------------------------- gallery

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": ["../examples", "../tutorials"],
    "gallery_dirs": ["gallery", "tutorials"],
    "filename_pattern": r"\.py$",  # all of them are run, in one process: compiled code is shared
    "ignore_pattern": r"demo\.py$",
    "backreferences_dir": "reference/used-in",
    "doc_module": ("crowdmetric",),
    "reference_url": {"crowdmetric": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 1,
    "ignore_repr_types": r"matplotlib",  # what a drawing function returns is no result
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "gallery_order.draw_plainly"),
    "matplotlib_animations": False,
    "within_subsection_order": "gallery_order.InOrderOfUse",
}

# ---------------------------------------------------------------------------------------------------- HTML

html_theme = "pydata_sphinx_theme"
html_title = "crowdmetric"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "crowdmetric", "image_light": "_static/icon.svg", "image_dark": "_static/icon.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}


def _skip_member(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator: its own pages say what those methods do."""
    foreign = (getattr(member, "__module__", None) or "").startswith("sklearn")
    return True if foreign or name.endswith("_request") else None


def _link_pages(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Link to the pages that a docstring names by their file, as ``docs/explanation/model.md``."""
    lines[:] = [re.sub(r"`{0,2}docs/([\w/-]+)\.md`{0,2}", r":doc:`/\1`", line) for line in lines]


def setup(app: Any) -> None:
    """Connect what this site adds to Sphinx."""
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("autodoc-process-docstring", _link_pages)
