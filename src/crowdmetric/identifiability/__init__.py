"""What can these answers teach? The verdict before any fit.

With R_k the projector on the complement of the span of person k's δ's (within their own answers),

    S = Σ_k Δ_kᵀ R_k Δ_k          (p, p), Δ_k the m_k × p matrix of svec Δ's

has rank = the number of degrees of freedom of M that the answers reveal with arbitrary people, under any
algorithm. Its null space is what cannot be learned. Its smallest other eigenvalue says how hard the rest is. S is
summed over blocks of people; nothing of size n · d² is ever formed.

::

    questions.py     who was asked what, in good coordinates
    person_spans.py  who has answers to spare, and why others have none
    spectrum.py      S, and P (what the offsets of one population reveal), decomposed whole (d ≤ 200)
    law.py           what one population reveals under the law of people that will be fitted (d ≤ 62)
    answer_map.py    answers as a linear map that is never written out
    implicit.py      the same by products alone, with stated confidence (beyond)
    catalogue.py     what no questionnaire about these items could reveal
    examples.py      what is out of reach, by entries of M and by pairs of items
    relations.py     features that follow from others, by name
    assignment.py    do questions depend on who is asked?
    diagnosis.py     all of it as values and in words, and what would help
    diagnosing.py    from questions to the verdict: `diagnose`
    judgement_diagnosis.py  the same for similarity judgements
"""

from __future__ import annotations

from crowdmetric.identifiability.assignment import Assignment, Dependence
from crowdmetric.identifiability.diagnosing import diagnose, plan_diagnosis
from crowdmetric.identifiability.diagnosis import Diagnosis
from crowdmetric.identifiability.examples import ItemPair

__all__ = ["Assignment", "Dependence", "Diagnosis", "ItemPair", "diagnose", "plan_diagnosis"]
