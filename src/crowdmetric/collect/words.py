"""Every fixed string that a participant reads, in English; other languages come from ``[words.XX]`` in the file."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["STUDY_WORDS", "WORDS", "direction_of", "words_for"]

WORDS: dict[str, str] = {
    "agree": "I agree, start",
    "length": "{number} questions, about {minutes} min",
    "continue": "Continue",
    "start_practice": "Try a few for practice",
    "start_questions": "Start",
    "left": "This one",
    "right": "This one",
    "first": "First",
    "second": "Second",
    "undecided": "I can't decide",
    "progress": "Question {number} of {total}",
    "practice": "Practice {number} of {total}",
    "hint": "Keys: ← first, → second",
    "hint_undecided": "Keys: ← first, → second, ↓ can't decide",
    "questions_about_you": "Before you go",
    "before_you_start": "Before you start",
    "instructions": "How it works",
    "required": "Please answer this one.",
    "number_needed": "Please give a number.",
    "optional": "optional",
    "other_tab": "You have already answered that one, perhaps in another tab. Here is where you are now.",
    "send": "Send",
    "done": "Thank you",
    "done_text": "Your answers are saved. You can close this page.",
    "code": "Your completion code",
    "back_to_panel": "Finish and return",
    "screened": "Thank you for your interest",
    "screened_text": "This study is looking for other people this time. You can close this page.",
    "full": "This study is complete",
    "full_text": "All places are taken. Thank you for your interest.",
    "paused": "This study is taking a break",
    "paused_text": "Your answers so far are saved. Please come back later with the same link.",
    "closed": "This study has ended",
    "closed_text": "It does not take any more answers. Thank you for your interest.",
    "no_link": "Your link is not complete",
    "no_link_text": "Please use the whole link that was sent to you.",
    "no_person": "We cannot find your place",
    "no_person_text": "Please open the link to the study again; you will continue where you were.",
    "trouble": "One moment, please",
    "trouble_text": "Your answer could not be saved just now. Nothing is lost: please try again.",
    "try_again": "Try again",
    "saving": "Saving your answer…",
    "offline": "No connection. Trying again…",
    "too_fast": "That was very fast",
    "too_fast_text": "There were more requests than one person makes. Please wait a few seconds and try again.",
    "not_found": "There is nothing here",
    "not_found_text": "Please use the link to the study.",
    "item_missing": "This item cannot be shown.",
}

# Texts of the study that a language may bring. Without them, the texts of [study] and [pages] are used.
STUDY_WORDS = ("title", "question", "consent", "instructions_text", "thanks")

RIGHT_TO_LEFT = {"ar", "arc", "ckb", "dv", "fa", "he", "ks", "ps", "sd", "ug", "ur", "yi"}


def words_for(language: str, tables: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return every fixed string in a language, English where the table is silent."""
    return {**WORDS, **tables.get(language, {})}


def direction_of(language: str) -> str:
    """Return ``'rtl'`` for languages written from right to left, otherwise ``'ltr'``."""
    return "rtl" if language.partition("-")[0].lower() in RIGHT_TO_LEFT else "ltr"
