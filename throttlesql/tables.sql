-- The tables of package throttlesql, for PostgreSQL 12 and later, as part of
-- the block that Store.Schema gives. All names in double quotes begin with the
-- Table of the Store.

IF pg_is_in_recovery() THEN
  RAISE read_only_sql_transaction USING MESSAGE = 'this server is a standby: connect to its primary, as with target_session_attrs=read-write';
ELSIF current_setting('transaction_read_only')::boolean THEN
  RAISE read_only_sql_transaction USING MESSAGE = 'transactions are read-only: set default_transaction_read_only = off for this role and database';
END IF;
SELECT string_agg(line, '; ') INTO differs FROM (LAYOUT) AS x;
IF differs IS NOT NULL THEN
  RAISE feature_not_supported USING MESSAGE = 'another layout is there, and is left as it is: ' || differs || '; this version needs layout 1: give the Store another Table, or migrate';
END IF;

-- What is remembered of each key. A row whose t has passed says nothing, and
-- means the same as no row.
--   t, n, p  limit.State. Under limits that leave P zero, p is when the row was
--            written: below zero if it was there before, as decide.sql tells.
--   l        the limit that it was written under
--   a        under sliding slots, their width, the newest slot, and what was
--            taken in each, the oldest first. After a change of the limit by
--            which something was forgiven, the hash of the old limit, its t, n
--            and p, and what was taken since, until that t has passed. Else
--            null, which takes no room.
--            Under a sliding log p is the id of its entries, and n what had
--            left it when something was taken last, as before and upto count.
-- There is no index on t: every update would have to write to it as well.
IF to_regclass('"throttle"') IS NULL THEN
  CREATE UNLOGGED TABLE "throttle" (
    key bytea PRIMARY KEY,
    t bigint NOT NULL,
    n bigint NOT NULL,
    p bigint NOT NULL,
    l text NOT NULL,
    a bigint[]
  ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
  COMMENT ON TABLE "throttle" IS 'throttlesql layout 1';
  anew := true;
END IF;

-- Since when nothing was lost, in microseconds of Unix time: one row, always
-- unlogged, so that it is gone when something may have been lost, which is
-- after a crash and on a promoted standby. Whoever finds it gone writes it
-- anew: what was taken before is not known then, and all counts as used up at
-- that moment.
IF to_regclass('"throttle_fence"') IS NULL THEN
  CREATE UNLOGGED TABLE "throttle_fence" (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    since bigint NOT NULL
  );
  COMMENT ON TABLE "throttle_fence" IS 'throttlesql layout 1';
  IF anew THEN -- nothing was taken before, so nothing can be lost
    INSERT INTO "throttle_fence" VALUES (true, -(2 ^ 62)::bigint);
  END IF;
END IF;

-- What was taken when, under sliding logs: upto is what was taken since ever,
-- with this, before is the same without it. From until on an entry says nothing.
-- It is always unlogged: a row without its entries counts as a new one.
IF to_regclass('"throttle_log"') IS NULL THEN
  CREATE UNLOGGED TABLE "throttle_log" (
    id bigint NOT NULL,
    instant bigint NOT NULL,
    upto bigint NOT NULL,
    before bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (id, instant),
    UNIQUE (id, upto)
  );
  COMMENT ON TABLE "throttle_log" IS 'throttlesql layout 1';
END IF;

-- The ids of logs. Where the tables were moved or restored without it, it goes on
-- after those in use: two keys of one id would share their entries.
IF to_regclass('"throttle_id"') IS NULL THEN
  CREATE SEQUENCE "throttle_id";
  PERFORM setval('"throttle_id"', max(used.id))
     FROM (SELECT v.id FROM "throttle_log" v
           UNION ALL
           SELECT s.p FROM "throttle" s WHERE split_part(s.l, ' ', 2) = 'sliding-log') AS used
   WHERE used.id > 0 HAVING count(*) > 0;
END IF;
