"""Truth tables of the comparisons, in both dialects."""

import pytest

from coevo.errors import ConfigError
from webarena.matching import (
    comparison,
    exact_match,
    must_exclude,
    must_include,
    normalise,
    one_of,
    required_values,
    tokens,
    url_match,
)

UPSTREAM, VAB = "webarena", "vab"


@pytest.mark.parametrize(
    ("text", "webarena", "vab"),
    [
        ("Kettle", "kettle", "kettle"),
        (" Kettle ", "kettle", " kettle "),
        ("'Kettle'", "kettle", "kettle"),
        ('"Kettle"', "kettle", "kettle"),
        ("''Kettle''", "'kettle'", "'kettle'"),
        ("'Kettle\"", "'kettle\"", "'kettle\""),
        (" 'Kettle' ", "kettle", " 'kettle' "),
        ("' Kettle'", " kettle", " kettle"),
        ("'", "", ""),
        ("", "", ""),
    ],
)
def test_normalise(text, webarena, vab):
    assert (normalise(text, UPSTREAM), normalise(text, VAB)) == (webarena, vab)


@pytest.mark.parametrize(
    ("reference", "answer", "webarena", "vab"),
    [
        ("N/A", "n/a", True, True),
        ("Yes", "'yes'", True, True),
        ("Yes", "yes ", True, False),
        ("Yes", "yes.", False, False),
        ("5", "5", True, True),
        ("", "", True, True),
        ("a |OR| b", "a", False, False),
    ],
)
def test_exact_match(reference, answer, webarena, vab):
    assert exact_match(reference, answer, UPSTREAM) is webarena
    assert exact_match(reference, answer, VAB) is vab


@pytest.mark.parametrize(
    ("references", "answer", "webarena", "vab"),
    [
        # one character, one reference: a word of the answer in both
        (["0"], "There are 10 of them", False, False),
        (["0"], "There are 0 of them", True, True),
        (["0"], "None: 0.", True, True),
        # several references, or longer ones: upstream takes any text
        (["0", "them"], "There are 10 of them", True, False),
        (["10"], "It costs 1080", True, False),
        (["10"], "It costs 10", True, True),
        (["5.00"], "$5.00", True, True),
        (["65"], "It is 65%", True, True),
        (["65"], "It is 365", True, False),
        (["kettle"], "Copper kettles", True, False),
        # more than one word is text in both
        (["copper kettle"], "two Copper Kettles", True, True),
        (["copper kettle"], "a kettle of copper", False, False),
        (["$5.00"], "for $5.00 each", True, True),  # two tokens: $ and 5.00
        # words with a slash count whole and in parts, in vab
        (["pot"], "kettle/pot", True, True),
        (["n/a"], "N/A", True, True),
        (["po"], "kettle/pot", True, False),
        # alternatives are vab's
        (["65 |OR| 3"], "3 stars", False, True),
        (["65 |OR| 3"], "65 percent", False, True),
        (["65 |OR| 3"], "4 stars", False, False),
        (["65 |OR| 3"], "the 65 |OR| 3 of it", True, True),
        # every one is required
        (["pot", "pan"], "a pot and a pan", True, True),
        (["pot", "pan"], "a pot and a lid", False, False),
        # an apostrophe splits a word
        (["kettle"], "the kettle's lid", True, True),
        # quotes around the whole go
        (["kettle"], "'kettle'", True, True),
        (["kettle"], "", False, False),
        ([""], "anything", True, True),
    ],
)
def test_must_include_of_an_answer(references, answer, webarena, vab):
    assert must_include(references, answer, UPSTREAM) is webarena
    assert must_include(references, answer, VAB) is vab


@pytest.mark.parametrize(
    ("references", "text", "webarena", "vab"),
    [
        (["0"], "<b>10</b>", True, False),
        (["0"], "<b>0</b>", True, True),
        (["pot |OR| pan"], "a pan", True, True),
        (["pot |OR| pan"], "a lid", False, False),
        (["private"], '<span class="visibility" title="Private">', True, True),  # a quote ends a word
        (["private"], "<span class='semiprivate'>", True, False),
        (["yjlou"], "<td>@yjlou2</td>", True, False),
    ],
)
def test_must_include_of_a_page(references, text, webarena, vab):
    assert must_include(references, text, UPSTREAM, page=True) is webarena
    assert must_include(references, text, VAB, page=True) is vab


@pytest.mark.parametrize(
    ("references", "answer", "passed"),
    [
        (["pot"], "a pan", True),
        (["pot"], "a pot", False),
        (["pot"], "potato", True),  # a single word is compared with words
        (["copper pot"], "two copper pots", False),
        (["pot", "pan"], "a pan", False),
    ],
)
def test_must_exclude(references, answer, passed):
    assert must_exclude(references, answer) is passed


def test_one_of():
    assert one_of(["pot", "PAN"], "a pan")
    assert one_of(["pot"], "potato")
    assert not one_of(["pot", "pan"], "a lid")


@pytest.mark.parametrize(
    ("references", "answer", "passed"),
    [
        ([">= 300", "< 700"], "300", True),
        ([">= 300", "< 700"], "1,000", False),
        ([">= 300", "< 700"], " 6,99 ", True),
        (["== 5"], "5", True),
        (["== 5"], "6", False),
        (["> 5"], "5", True),  # the tolerance makes it so in the original, too
        (["< 5"], "6", False),
        (["<= 5 |OR| == 9"], "9", True),
        (["<= 5 |OR| == 9"], "8", False),
        (["== 5"], "five", False),
        (["== 5"], "5.0", False),
        (["== 5"], "", False),
    ],
)
def test_required_values(references, answer, passed):
    assert required_values(references, answer) is passed


@pytest.mark.parametrize("text", ["5", "> ", "=> 5", ">= five", "> 5 < 7"])
def test_comparisons_that_are_none(text):
    with pytest.raises(ValueError, match="is not a comparison"):
        comparison(text)


@pytest.mark.parametrize(
    ("reference", "note", "url", "webarena", "vab"),
    [
        # containment, asked for
        ("http://s/a", "GOLD in PRED", "http://s/a", True, True),
        ("http://s/a", "GOLD in PRED", "http://s/a/b", True, True),
        ("http://s/a", "GOLD in PRED", "http://s/", False, False),
        ("http://s/a/", "GOLD in PRED", "http://s/a", True, True),
        ("http://s/a", "GOLD in PRED", "http://s/ab#c", True, True),
        # another scheme: upstream looks at host and path
        ("http://s/a", "GOLD in PRED", "https://s/a", True, False),
        ("http://localhost:1/a", "GOLD in PRED", "http://127.0.0.1:1/a", False, True),
        # queries: upstream wants each key to have one of the values, in any order
        ("http://s/a?x=1&y=2", "GOLD in PRED", "http://s/a?y=2&x=1", True, False),
        ("http://s/a?x=1&y=2", "GOLD in PRED", "http://s/a?x=1&y=2&z=3", True, True),
        ("http://s/a?x=1", "GOLD in PRED", "http://s/a", False, False),
        ("http://s/a?x=1 |OR| http://s/a?x=2", "GOLD in PRED", "http://s/a?x=2", True, True),
        ("http://s/a?x=1 |OR| http://s/b?y=2", "GOLD in PRED", "http://s/b?y=2", False, True),
        # alternatives
        ("http://s/a |OR| http://s/b", "GOLD in PRED", "http://s/b/c", True, True),
        ("http://s/a |OR| http://s/b", "GOLD in PRED", "http://s/c", False, False),
        # the defaults differ
        ("http://s/a", None, "http://s/a/b", True, False),
        ("http://s/a", None, "http://s/a/", True, True),
        ("http://s/a", None, "http://s/a//", True, False),
        ("http://s/a |OR| http://s/b", None, "http://s/b", True, True),
        ("http://s/a?x=1", None, "http://s/a?x=1", True, True),
    ],
)
def test_url_match(reference, note, url, webarena, vab):
    assert url_match(reference, url, note, UPSTREAM) is webarena
    assert url_match(reference, url, note, VAB) is vab


def test_rules_a_dialect_does_not_have():
    assert url_match("http://s", "http://s", "EXACT", VAB)
    with pytest.raises(ConfigError, match="'webarena' has no url_match rule 'EXACT'"):
        url_match("http://s", "http://s", "EXACT", UPSTREAM)
    with pytest.raises(ConfigError, match="'vab' has no url_match rule 'gold'"):
        url_match("http://s", "http://s", "gold", VAB)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it is 5.", ["it", "is", "5", "."]),
        ("it is 5", ["it", "is", "5"]),
        ("sold out. try again.", ["sold", "out", ".", "try", "again", "."]),
        ("the total is 65. there are 3.", ["the", "total", "is", "65.", "there", "are", "3", "."]),
        ("it is 65. 3 are left", ["it", "is", "65", ".", "3", "are", "left"]),
        ("mr. smith, 5 elm ave. left.", ["mr.", "smith", ",", "5", "elm", "ave.", "left", "."]),
        ('he said "yes." then', ["he", "said", "``", "yes", ".", "''", "then"]),
        ("$5.00 (n/a)", ["$", "5.00", "(", "n/a", ")"]),
        ("", []),
    ],
)
def test_tokens(text, expected):
    """As nltk 3.9's `word_tokenize` has them with its English sentence model."""
    assert tokens(text) == expected
