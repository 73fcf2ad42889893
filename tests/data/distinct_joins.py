"""Distinct counts over joins in every form, and the two streams that they join."""

import pyarrow as pa

FORMS = {
    "two_sided": "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b",
    "filtered": "SELECT COUNT(DISTINCT a, c) FROM r, s WHERE r.b = s.b AND r.a > 1 AND c <> 'x'",
    "full": "SELECT COUNT(DISTINCT r.a, r.b, s.c) FROM r JOIN s ON r.b = s.b",
    "semi": "SELECT COUNT(DISTINCT r.a) FROM r JOIN s ON r.b = s.b",
    "semi_right": "SELECT COUNT(DISTINCT c, s.d) FROM r JOIN s ON r.b = s.b",
    "keys": "SELECT COUNT(DISTINCT s.b) FROM r JOIN s ON r.b = s.b",
    "with_key": "SELECT COUNT(DISTINCT r.a, s.b) FROM r JOIN s ON r.b = s.b",
    "composite": "SELECT COUNT(DISTINCT a, c) FROM r JOIN s ON r.b = s.b AND r.d = s.d",
    "part_of_key": "SELECT COUNT(DISTINCT a, r.d, c) FROM r JOIN s ON r.b = s.b AND r.d = s.d",
    "rows": "SELECT COUNT(*) FROM (SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b)",
    "in_list": "SELECT COUNT(DISTINCT a) FROM r WHERE b IN (SELECT b FROM s WHERE c = 'x') AND d = 'u'",
    "exists": "SELECT COUNT(DISTINCT a, b) FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND s.d = 'u')",
    "with_itself": "SELECT COUNT(DISTINCT p.a, q.a) FROM r p JOIN r q ON p.b = q.b",
}
R, S = "a INT, b BIGINT, d STRING", "b INT, c STRING, d STRING"
R_SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("d", pa.string())])
S_SCHEMA = pa.schema([("b", pa.int32()), ("c", pa.string()), ("d", pa.string())])
