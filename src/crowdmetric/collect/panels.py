"""Panels: what they put into a link to the study, and where they want people back.

=============  ==========================================  ===============================================
panel          in the link                                 at the end
=============  ==========================================  ===============================================
prolific       PROLIFIC_PID, STUDY_ID, SESSION_ID          a code, inside Prolific's completion address
connect        participantId, projectId, assignmentId      a code, or the address in [panel]
sona           SURVEY_CODE                                 the address in [panel], with {id} for the code
list           key, signed by this study                   a code or an address
anonymous      nothing                                     a code or an address
=============  ==========================================  ===============================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from crowdmetric.collect.operations import FAILED, FINISHED, SCREENED, Arrival
from crowdmetric.collect.settings import Panel
from crowdmetric.collect.tokens import sign, unsign
from crowdmetric.errors import DataError
from crowdmetric.tables import read_columns

__all__ = ["Ending", "arrival_of", "ending_of", "people_of_list", "personal_links"]

PARAMETERS = {
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "connect": ("participantId", "projectId", "assignmentId"),
    "sona": ("SURVEY_CODE", "", ""),
}
PROLIFIC = "https://app.prolific.com/submissions/complete?cc={code}"
# Characters that panels use in ids. Anything else is not one of their ids.
ID = re.compile(r"[A-Za-z0-9_.@:=-]{1,100}")


@dataclass(frozen=True)
class Ending:
    """What somebody is given at the end: a code to show, an address to go to; either may be missing."""

    code: str = ""
    url: str = ""


def arrival_of(panel: Panel, query: Mapping[str, str], key: bytes) -> Arrival | None:
    """Return who a link means; None if it lacks the id that the panel puts there, or holds a false one."""
    if panel.kind == "anonymous":
        return Arrival("anonymous")
    if panel.kind == "list":
        person = unsign(key, "list", query.get("key", ""))
        return None if person is None else Arrival("list", person)
    name, study, session = PARAMETERS[panel.kind]
    found = query.get(name, "")
    if not ID.fullmatch(found):
        return None
    others = [value if ID.fullmatch(value := query.get(other, "")) else None for other in (study, session)]
    return Arrival(panel.kind, found, *others)


def ending_of(panel: Panel, status: str, panel_id: str | None) -> Ending:
    """Return the code and the address for somebody who finished, was screened out, or failed the checks."""
    code = {FINISHED: panel.code, SCREENED: panel.screened_code, FAILED: panel.failed_code or panel.code}.get(
        status, ""
    )
    url = panel.url if status in (FINISHED, FAILED) else ""
    if panel.kind == "prolific" and code and not url:
        url = PROLIFIC
    filled = url.replace("{code}", quote(code, safe="")).replace("{id}", quote(panel_id or "", safe=""))
    return Ending(code, filled)


def people_of_list(path: Path) -> list[str]:
    """Return the people in a table: its column ``person``, or its only column."""
    columns = read_columns(path)
    name = "person" if "person" in columns else next(iter(columns))
    if len(columns) > 1 and name != "person":
        raise DataError(f"{path} has no column 'person'; rename the column of people to 'person'")
    people = [str(cell) for cell in columns[name].tolist() if cell is not None]
    if len(set(people)) < len(people):
        raise DataError(f"{path} names somebody twice; remove the second row")
    return people


def personal_links(address: str, people: list[str], key: bytes) -> list[tuple[str, str]]:
    """Return each person with their own link."""
    return [(person, f"{address}/?key={sign(key, 'list', person)}") for person in people]
