"""The helper of other tests: facts in their order, as a whole."""

from tests.facts import says


def test_facts_stand_in_the_text_in_their_order() -> None:
    text = "0.69 s faster than zero3: 21 s less in all-gathers (between nodes), 3.5 % more."
    assert says(text) and says(text, "0.69 s", "faster", "zero3", "21 s", "less", "3.5 %")
    assert not says(text, "zero3", "faster")
    assert not says(text, "1 s") and not says(text, "zero") and not says(text, "3") and not says(text, "69 s")
