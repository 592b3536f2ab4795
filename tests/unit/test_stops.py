"""Stop strings: found across cuts, the earliest wins, nothing of them is shown too soon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import UserInputError
from headwater.text.stops import StopStrings


def run(stops, pieces, include=False):
    s = StopStrings(stops, include)
    shown = [s.push(p) for p in pieces] + [s.finish()]
    return "".join(shown), s.stopped


def expected(stops, text, include):
    """By definition: the smallest start, then the shortest."""
    hits = [(text.find(s), len(s), s) for s in stops if s in text]
    if not hits:
        return text, None
    at, n, stop = min(hits)
    return text[: at + (n if include else 0)], stop


AB = st.text(alphabet="ab\n", min_size=1, max_size=5)


@given(stops=st.lists(AB, max_size=4), pieces=st.lists(st.text(alphabet="ab\n", max_size=4), max_size=12), include=st.booleans())
def test_whatever_the_cuts_the_text_ends_at_the_earliest_stop(stops, pieces, include):
    assert run(stops, pieces, include) == expected(stops, "".join(pieces), include)


@given(stops=st.lists(AB, min_size=1, max_size=4), pieces=st.lists(st.text(alphabet="ab\n", max_size=4), max_size=12))
def test_what_is_shown_never_has_to_be_taken_back(stops, pieces):
    s, shown = StopStrings(stops), ""
    final = expected(stops, "".join(pieces), False)[0]
    for p in pieces:
        shown += s.push(p)
        assert final.startswith(shown)


def test_a_possible_beginning_is_held_back_and_the_rest_is_not():
    s = StopStrings(["</s>", "STOP"])
    assert s.push("abc<") == "abc"
    assert s.push("/") == ""
    assert s.push("x ST") == "</x "
    assert s.push("OP more") == ""
    assert s.stopped == "STOP"
    assert s.push("later") == "" and s.finish() == ""


def test_the_stop_string_can_stay_in_the_output():
    assert run(["END"], ["a E", "ND b"], include=True) == ("a END", "END")


@pytest.mark.parametrize("stops", [[""], ["a" * 5000], ["a"] * 100])
def test_odd_stop_lists_are_refused(stops):
    with pytest.raises(UserInputError, match="stop"):
        StopStrings(stops)
