"""The map of the report: places, neighbors, and names that stay text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from crowdmetric.report.map import MOST_ITEMS, SCRIPT, map_section, place_items, rows_on_map

ITEMS = np.random.default_rng(0).normal(size=(40, 3))
L = np.diag([2.0, 1.0, 0.1])


def test_maps_fit_their_frames_and_are_turned_alike() -> None:
    found = place_items(ITEMS, L, np.arange(40))
    for places in (found.before, found.after):
        assert places.min() >= 0.0
        assert places.max() <= 1.0
    # a rotation of what the metric sees changes no distance, and must not turn the map
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3))).Q
    np.testing.assert_allclose(place_items(ITEMS, turn @ L, np.arange(40)).after, found.after, atol=1e-9)


def test_without_a_metric_of_its_own_the_two_maps_are_one() -> None:
    found = place_items(ITEMS, 3.0 * np.eye(3), np.arange(40))
    np.testing.assert_allclose(found.before, found.after, atol=1e-9)
    np.testing.assert_array_equal(found.near_before, found.near_after)
    assert found.kept[0] == pytest.approx(found.kept[1])


def test_in_two_dimensions_nothing_is_lost_and_distances_are_those_of_the_metric() -> None:
    found = place_items(ITEMS[:, :2], L[:2, :2], np.arange(40))
    np.testing.assert_allclose(found.kept, 1.0)
    for places, X in ((found.before, ITEMS[:, :2]), (found.after, ITEMS[:, :2] @ L[:2, :2].T)):
        shown = np.linalg.norm(places[:, None] - places, axis=2)
        true = np.linalg.norm(X[:, None] - X, axis=2)
        np.testing.assert_allclose(shown / shown.max(), true / true.max(), atol=1e-9)


def test_neighbors_are_those_of_all_directions() -> None:
    rows = np.array([5, 1, 7, 30, 12, 2, 9])
    found = place_items(ITEMS, L, rows)
    true = np.linalg.norm((ITEMS[rows][:, None] - ITEMS[rows]) @ L.T, axis=2)
    np.testing.assert_array_equal(found.near_after[:, 0], np.argsort(true, axis=1)[:, 1])


def test_names_are_text_and_nothing_is_fetched() -> None:
    names = [f"<script>alert({i})</script> & item" for i in range(40)]
    page = map_section(ITEMS, L, rows_on_map(40, np.arange(5)), names)
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(3)&lt;/script&gt; &amp; item" in page
    assert re.findall(r"https?://[^\"']+", page) == ["http://www.w3.org/2000/svg"]  # the name of SVG, not an address
    assert "innerHTML" not in SCRIPT


def test_it_can_be_read_without_a_script() -> None:
    page = map_section(ITEMS, L, rows_on_map(40, np.arange(5)), [f"item {i}" for i in range(40)])
    assert page.count("<svg") == 2
    assert page.count("<circle") == 80
    assert '<p class="controls" hidden>' in page  # controls appear only where they work
    assert "<title>item 39</title>" in page


def test_large_catalogs_show_some_and_say_so() -> None:
    items = np.random.default_rng(0).normal(size=(1_000, 3))
    page = map_section(items, L, rows_on_map(1_000, np.array([999, 3])), [f"item {i}" for i in range(1_000)])
    assert page.count("<circle") == 2 * MOST_ITEMS
    assert "150 of 1,000 items" in page
    assert "<title>item 999</title>" in page


def test_few_items_need_no_map() -> None:
    assert map_section(ITEMS[:3], L, np.arange(3), ["a", "b", "c"]) == ""


def test_items_on_a_line_and_equal_items_have_a_map() -> None:
    assert "<svg" in map_section(np.arange(5.0)[:, None], np.eye(1), np.arange(5), list("abcde"))
    assert "nan" not in map_section(np.zeros((5, 2)), np.eye(2), np.arange(5), list("abcde")).lower()
