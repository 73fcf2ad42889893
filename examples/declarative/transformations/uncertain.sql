CREATE MATERIALIZED VIEW uncertain AS
SELECT query, value, low, high FROM estimates WHERE NOT exact
