"""Days and addresses that are somebody's, and those that are everybody's."""

import pytest

from rootguard.channels.detection import Rules
from tests.support.growth import grows_linearly

RULES = Rules()


def addresses(text: str) -> list[str]:
    return [text[f.start : f.end] for f in RULES.find(text) if f.kind == "address"]


def days(text: str) -> list[str]:
    return [text[f.start : f.end] for f in RULES.find(text) if f.kind == "date"]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("I was born on 14 March 1971.", "14 March 1971"),
        ("Please tell me your date of birth. It's 1971-03-14", "1971-03-14"),
        ("dob=1971-03-14", "1971-03-14"),
        ("My appointment is on 12 May 2026 at 9:30", "12 May 2026"),
        ("She was admitted on June 21st, 2022.", "June 21st, 2022"),
        ("Der Termin beim Arzt ist am 2026-05-04.", "2026-05-04"),
        ("Reply to tom.ek@example.org before 2026-05-04.", "2026-05-04"),
        ("Jane Smith defended on 12 May 2025.", "12 May 2025"),
        ("When: 2026-05-04 16:28:25\nWhere: Town Hall", "2026-05-04 16:28:25"),
        ("It has been like that since 1/13/1977", "1/13/1977"),
        ("14.03.1971", "14.03.1971"),
    ],
)
def test_a_day_of_somebodys_record_is_found(text: str, day: str) -> None:
    assert days(text) == [day]


@pytest.mark.parametrize(
    "text",
    [
        "The bank held its rate on 31 July 2024 and cut it on 18 September 2024.",
        "The next minor is 8.4.0, planned for 2026-12-01.",
        "SELECT name FROM staff WHERE hired_at >= '2019-01-01'",
        "My query returns 2024-01-31 twice.",
        "The tariff holds until 01/31/2025. Der Zins gilt bis 31.01.2025.",
        "We fly from Vienna to Lisbon on 12 May 2026.",
        "The war in Europe ended on 8 May 1945.",
    ],
)
def test_a_day_of_the_world_is_left(text: str) -> None:
    assert days(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Today is 2026-11-17. You help the patients of a clinic with their appointments.",
        "Current date: 11/17/2026\nYou are a nurse's assistant.",
        "Your knowledge cutoff is 1 June 2025. The patient asks, you answer.",
    ],
)
def test_the_clock_of_a_prompt_is_left_beside_words_of_health(text: str) -> None:
    assert days(text) == []


def test_the_clock_of_a_prompt_is_told_from_a_day_of_birth_beside_it() -> None:
    assert days("Born: 1971-03-14. Today is 2026-11-17.") == ["1971-03-14"]


def test_another_paragraph_says_nothing_about_a_day() -> None:
    assert days("My doctor called.\n\nThe bridge opened on 3 May 2019.") == []
    assert days("My doctor called.\nThe letter is of 3 May 2019.") == ["3 May 2019"]


def test_many_days_cost_no_more_than_their_number() -> None:
    assert grows_linearly(RULES.find, "on 3 May 2019 ", 32_000)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("How do I get from Annenstraße 23 to the lake?", "Annenstraße 23"),
        ("I live at 12 Baker Street, next to the hotel.", "12 Baker Street"),
        ("Ship it to 12 Baker Street, behind the station.", "12 Baker Street"),
        ("Meet Anna Schmidt at the museum, 12 Baker Street, at two.", "12 Baker Street"),
        ("My flat is above the café, Hauptstraße 7.", "Hauptstraße 7"),
    ],
)
def test_an_address_may_be_somebodys_home(text: str, address: str) -> None:
    assert addresses(text) == [address]


@pytest.mark.parametrize(
    "text",
    [
        "Opening hours of the museum in Avenida Paulista 1578?",
        "Is the hotel at 10 Downing Street quiet?",
        "Our hotel: Philharmoniker Str. 4. Which tram goes there?",
        "Stay near Bahnhofstrasse 2 nights, see Piazza Navona 3 times.",
        "2 Nights Grand Canyon Drive",
        "Day 3 Mount Fuji Trail, day 4 Kyoto; 10:40 Salzburger Platz",
    ],
)
def test_an_address_of_a_public_place_is_left(text: str) -> None:
    assert addresses(text) == []
