-- What would break limits, a line each, each after its kind and a space; null if
-- nothing would. It reads catalogs only, as tables may be missing.
WITH rel(tab) AS (VALUES ('"throttle"'), ('"throttle_fence"'), ('"throttle_log"')),
absent(schema) AS (
  SELECT DISTINCT split_part(tab, '.', 1) FROM rel WHERE strpos(tab, '"."') > 0 AND to_regnamespace(split_part(tab, '.', 1)) IS NULL
),
found(kind, line) AS (
  SELECT 'layout', line || '; this version needs layout 1: give the Store another Table, or migrate' FROM (LAYOUT) AS x
  UNION ALL
  SELECT 'layout', format('schema %s of the Table does not exist: make it first, by CREATE SCHEMA %s', schema, schema) FROM absent
  UNION ALL
  SELECT 'layout', format('table %s does not exist%s: call Create, or run what Schema gives; if it exists, GRANT USAGE ON SCHEMA of it TO %I',
         tab, CASE WHEN strpos(tab, '"."') = 0 THEN ' in the search_path ' || current_setting('search_path') END, current_user)
    FROM rel WHERE to_regclass(tab) IS NULL AND NOT EXISTS (SELECT FROM absent)
  UNION ALL
  SELECT 'layout', format('function %s does not exist: the schema is not there, or of another version; call Create, or run what Schema gives', fun)
    FROM (VALUES ('"throttle_take"(bytea[],text[],text[],bigint[])'), ('"throttle_look"(bytea)'),
                 ('"throttle_several"(bytea[],text[],bigint[])'), ('"throttle_sweep"(bigint,integer,bigint)')) AS w(fun)
   WHERE to_regprocedure(fun) IS NULL AND to_regclass('"throttle"') IS NOT NULL
  UNION ALL
  SELECT 'layout', format('sequence %s does not exist, so sliding logs fail: call Create, or run what Schema gives', seq)
    FROM (VALUES ('"throttle_id"')) AS w(seq) WHERE to_regclass(seq) IS NULL AND to_regclass('"throttle_log"') IS NOT NULL
  UNION ALL
  SELECT 'layout', format('table %s is UNLOGGED, the fence is not, so keys would start full after a crash or a fail-over: ALTER TABLE %s SET LOGGED', tab, tab)
    FROM rel JOIN pg_class c ON c.oid = to_regclass(tab)
   WHERE c.relpersistence = 'u' AND (SELECT relpersistence FROM pg_class WHERE oid = to_regclass('"throttle_fence"')) = 'p'
  UNION ALL
  SELECT 'read-only', 'the server is a standby, which decides nothing: connect to its primary, as with target_session_attrs=read-write'
   WHERE pg_is_in_recovery()
  UNION ALL
  SELECT 'read-only', 'transactions are read-only: set default_transaction_read_only = off for this role and database'
   WHERE current_setting('transaction_read_only')::boolean AND NOT pg_is_in_recovery()
  UNION ALL
  SELECT 'isolation', format('the isolation level is %s: with it callers of one key fail instead of waiting; set default_transaction_isolation = ''read committed''', current_setting('transaction_isolation'))
   WHERE current_setting('transaction_isolation') <> 'read committed'
  UNION ALL
  SELECT 'version', format('PostgreSQL %s: 12 or later is needed', current_setting('server_version'))
   WHERE current_setting('server_version_num')::int < 120000
  UNION ALL
  SELECT 'privilege', format('role %I may not %s %s: GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %I',
         current_user, lower(string_agg(can, ', ')), tab, tab, current_user)
    FROM rel CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS w(can)
   WHERE NOT has_table_privilege(to_regclass(tab), can) GROUP BY tab
  UNION ALL
  SELECT 'privilege', format('role %I may not use the sequence %s: GRANT USAGE ON SEQUENCE %s TO %I', current_user, seq, seq, current_user)
    FROM (VALUES ('"throttle_id"')) AS w(seq) WHERE NOT has_sequence_privilege(to_regclass(seq), 'USAGE')
  UNION ALL
  SELECT 'privilege', format('role %I may not execute %s: GRANT EXECUTE ON FUNCTION %s TO %I', current_user, fun, fun, current_user)
    FROM (VALUES ('"throttle_take"(bytea[],text[],text[],bigint[])'), ('"throttle_look"(bytea)'),
                 ('"throttle_several"(bytea[],text[],bigint[])'), ('"throttle_sweep"(bigint,integer,bigint)')) AS w(fun)
   WHERE NOT has_function_privilege(to_regprocedure(fun), 'EXECUTE')
  UNION ALL
  SELECT 'vacuum', format('pid %s of user %s has a transaction open for %s (%s), which keeps vacuum from all rows that died since: end it, or set idle_in_transaction_session_timeout',
         pid, coalesce(usename, '?'), date_trunc('second', clock_timestamp() - xact_start), state)
    FROM (SELECT * FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xmin, backend_xid) IS NOT NULL
             AND xact_start < clock_timestamp() - interval '5 min' ORDER BY xact_start LIMIT 5) AS x
  UNION ALL
  SELECT 'vacuum', format('prepared transaction %L has been open for %s, which keeps vacuum from all rows that died since: COMMIT PREPARED or ROLLBACK PREPARED it',
         gid, date_trunc('second', clock_timestamp() - prepared))
    FROM (SELECT * FROM pg_prepared_xacts
           WHERE database = current_database() AND prepared < clock_timestamp() - interval '5 min' ORDER BY prepared LIMIT 5) AS x
  UNION ALL
  SELECT 'vacuum', format('replication slot %L holds back vacuum by %s transactions and is not in use: start what it is for, or pg_drop_replication_slot(%L)', slot_name, age(xmin), slot_name)
    FROM pg_replication_slots WHERE NOT active AND xmin IS NOT NULL
)
SELECT coalesce(string_agg(kind || ' ' || replace(line, E'\n', ' '), E'\n'), '') FROM found
