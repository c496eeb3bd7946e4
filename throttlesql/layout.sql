-- What differs from the layout that this version reads and writes, of what is
-- there, a line each: for Create, which makes what is missing, and for Check.
-- A change of what the columns mean has another number of the layout, and other
-- names of columns, so that statements of an older version fail instead.
SELECT format('table %s has no column %s %s', w.tab, w.col, w.typ) || coalesce(', but one ' || format_type(a.atttypid, a.atttypmod), '') AS line
  FROM (VALUES
         ('"throttle"', 'key', 'bytea'), ('"throttle"', 't', 'bigint'), ('"throttle"', 'n', 'bigint'),
         ('"throttle"', 'p', 'bigint'), ('"throttle"', 'l', 'text'), ('"throttle"', 'a', 'bigint[]'),
         ('"throttle_fence"', 'one', 'boolean'), ('"throttle_fence"', 'since', 'bigint'),
         ('"throttle_log"', 'id', 'bigint'), ('"throttle_log"', 'instant', 'bigint'), ('"throttle_log"', 'upto', 'bigint'),
         ('"throttle_log"', 'before', 'bigint'), ('"throttle_log"', 'until', 'bigint')
       ) AS w(tab, col, typ)
  LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.col AND a.attnum > 0 AND NOT a.attisdropped
 WHERE to_regclass(w.tab) IS NOT NULL AND to_regtype(w.typ) IS DISTINCT FROM a.atttypid
UNION ALL
SELECT format('table %s has a column %s that must not be null and has no default', w.tab, a.attname)
  FROM (VALUES ('"throttle"', '{key,t,n,p,l,a}'::name[]), ('"throttle_fence"', '{one,since}'),
               ('"throttle_log"', '{id,instant,upto,before,until}')) AS w(tab, cols)
  JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attnum > 0 AND NOT a.attisdropped
 WHERE a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attname <> ALL (w.cols)
UNION ALL
SELECT format('table %s has no unique index on (%s)', w.tab, w.key)
  FROM (VALUES ('"throttle"', 'key'), ('"throttle_fence"', 'one'), ('"throttle_log"', 'id, instant')) AS w(tab, key)
  JOIN pg_class c ON c.oid = to_regclass(w.tab)
 WHERE NOT EXISTS (
         SELECT FROM pg_index i
          WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
            AND w.key = (SELECT string_agg(a.attname, ', ' ORDER BY n)
                     FROM generate_series(1, i.indnkeyatts) n JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n-1]))
UNION ALL
SELECT format('%s is not a table (relkind %s)', w.tab, c.relkind)
  FROM (VALUES ('"throttle"'), ('"throttle_fence"'), ('"throttle_log"')) AS w(tab)
  JOIN pg_class c ON c.oid = to_regclass(w.tab)
 WHERE c.relkind NOT IN ('r', 'p')
UNION ALL
SELECT format('table %s has the layout %s', w.tab, split_part(d.text, ' ', 3))
  FROM (VALUES ('"throttle"'), ('"throttle_fence"'), ('"throttle_log"')) AS w(tab)
  CROSS JOIN LATERAL (SELECT obj_description(to_regclass(w.tab), 'pg_class')) AS d(text)
 WHERE d.text LIKE 'throttlesql layout %' AND split_part(d.text, ' ', 3) <> '1'
UNION ALL
SELECT 'table "throttle" is UNLOGGED, the Store is Logged: ALTER TABLE "throttle" SET LOGGED'
  FROM pg_class c
 WHERE c.oid = to_regclass('"throttle"') AND c.relpersistence = 'u' AND 'LOGGED' = 'true'
UNION ALL
SELECT format('function %s is not the one of this version: DROP FUNCTION %s, then Create', p.oid::regprocedure, p.oid::regprocedure)
  FROM (VALUES
         ('"throttle_take"(bytea[],text[],text[],bigint[])', 'MD5 take'),
         ('"throttle_look"(bytea)', 'MD5 look'),
         ('"throttle_several"(bytea[],text[],bigint[])', 'MD5 several'),
         ('"throttle_sweep"(bigint,integer,bigint)', 'MD5 sweep')
       ) AS w(fun, sum)
  JOIN pg_proc p ON p.oid = to_regprocedure(w.fun)
 WHERE md5(p.prosrc) <> w.sum
