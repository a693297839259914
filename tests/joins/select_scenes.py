"""A catalogue for tests of selects: stocks, what analysts say of them, and trades."""

from penstock import Catalog, Table

CATALOG = Catalog.of(
    {
        "Stocks": Table(
            {
                "Symbol": "string",
                "PER": "double",
                "Listed": "date",
                "venue": {"country": "string"},
                "tags": "array<string>",
            },
            key="Symbol",
        ),
        "Reviews": Table(
            {
                "Id": "int",
                "Symbol": "string",
                "Rating": "int",
                "Analyst": "string",
                "body": "string",
                "note": "string",
            },
            key="Id",
            payload="body",
        ),
        "Analysts": Table(
            {"Name": "string", "Firm": "string", "note": "string", "Rating": "int"}, key="Name"
        ),
        "Trades": Table(
            {"Id": "int", "Symbol": "string", "Day": "date", "Shares": "int", "order": "int"},
            key="Id",
        ),
        "Days": Table({"Symbol": "string", "Day": "date", "Open": "double"}, key=["Symbol", "Day"]),
        "Alone": Table({"x": "int"}, key="x"),
    },
    edges=[
        ("Stocks", "Reviews", "Symbol"),
        ("Reviews", "Analysts", [("Analyst", "Name")]),
        ("Stocks", "Trades", "Symbol"),
        ("Trades", "Days", ["Symbol", "Day"]),
    ],
)
