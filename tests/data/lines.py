"""Lines of CSV and JSON whose number of rows is easily got wrong: by name, the reader's options, the bytes, and the rows."""

LINES = {
    "csv": ({}, b"1\n\n  \n2\r\n3\r4", 4),
    "csv-header": ({"header": "true"}, b"\nk\n1\n2\n", 2),
    "csv-empty": ({"header": "true"}, b"", 0),
    "json": ({}, b'{"k": 1}\n\n{"k": 2}\r\n   \n[{"k": 3}, {"k": 4}]\n{"k"', 5),
}
