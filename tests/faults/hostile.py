"""Input that means harm: each of these becomes a dead letter, and nothing else happens."""

BAD_RECORDS = (
    '{"id": 1, "price": ',
    '{"id": 1, "price": NaN}x',
    '{"id": "1e400"}',
    '{"id": ' + "9" * 5_000 + "}",
    "[" * 2_000,
    "\\u0000",
    '"',
)

BAD_DOCUMENTS = (
    "<news><item>",
    "<news>\ufffe</news>",
    "<!DOCTYPE n [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><n>&b;</n",
    "<n>" * 5_000,
    "",
)
