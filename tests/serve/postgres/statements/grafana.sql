-- connect
SELECT 1;
-- the server's version, for the query builder
SELECT current_setting('server_version_num')::int/100 as version;
-- tables, for the query builder
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) as i, string_to_array(current_setting('search_path'), ',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog') ORDER BY 1;
-- columns, for the query builder
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 'by_region' ORDER BY ordinal_position;
-- same: a panel over a planned query
SELECT region AS metric, n AS value FROM by_region WHERE region IN ('north', 'south') ORDER BY 1;
-- same: a panel over a stream
SELECT region AS metric, count(*) AS value FROM orders GROUP BY region ORDER BY 1;
-- a panel with a band
SELECT region, n, n_low AS "lower", n_high AS "upper" FROM by_region ORDER BY region;
-- what the query builder reads: schemas, an extension, and a table's schema by parse_ident (read in grafana/grafana, grafana-postgresql-datasource/postgresMetaQuery.ts)
SELECT schema_name AS "name" FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast') ORDER BY schema_name;
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
SELECT array_length(parse_ident('public.by_region'), 1), (parse_ident('public.by_region'))[1], (parse_ident('by_region'))[1];
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('public.by_region'), 1) = 2 THEN quote_ident(table_schema) = (parse_ident('public.by_region'))[1] AND quote_ident(table_name) = (parse_ident('public.by_region'))[2] ELSE quote_ident(table_name) = 'public.by_region' END;
-- same: a time series over a stream: $__timeGroup(at, '5m') and $__timeFilter(at) (macros of grafana-postgresql-datasource/macros.go)
SELECT floor(extract(epoch from at)/300)*300 AS "time", count(*) AS n FROM visits WHERE at BETWEEN '2024-02-28T12:00:00Z' AND '2024-02-29T11:59:59.999Z' GROUP BY 1 ORDER BY 1;
SELECT floor(extract(epoch from at)/3600)*3600 AS "time", sum(seconds) AS "seconds" FROM visits WHERE at >= '2024-02-28T12:00:00Z' AND at <= '2024-03-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
SELECT floor(extract(epoch from day)/86400)*86400 AS "time", count(*) AS n FROM visits WHERE day BETWEEN '2024-02-28T12:00:00Z' AND '2024-03-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
