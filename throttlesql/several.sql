-- Charges several keys that are all likely to pass, in their order, each as
-- decide.sql does, or none of them.
--
--   keys   sorted, each once
--   lims   their limits
--   nums   11 numbers for each: $3 to $13 of decide.sql
--
--   at     the clock, in microseconds of Unix time
--   after  t and n of each key; null if throttle_take is to decide, as nothing
--          was charged
--   added  how many rows are new
CREATE FUNCTION "throttle_several"(
  keys bytea[], lims text[], nums bigint[], OUT at bigint, OUT after bigint[], OUT added int
) LANGUAGE plpgsql
AS $several$
DECLARE
  since CONSTANT bigint := nullif(current_setting('throttle.since', true), '')::bigint;
  b int; cost bigint; rem bigint; cnt bigint; fresh_t bigint; fresh_n bigint; t1 bigint; n1 bigint; p1 bigint;
BEGIN
  at := (date_part('epoch', clock_timestamp()) * 1000000)::bigint;
  added := 0;
  FOR i IN 1..cardinality(keys) LOOP
    IF since IS NULL OR since > at - nums[i*11] OR at < nums[i*11-2] OR at >= nums[i*11-1] THEN
      RETURN;
    END IF;
  END LOOP;
  after := '{}';
  FOR i IN 1..cardinality(keys) LOOP
    b := i * 11 - 11;
    cost := nums[b+1]; rem := nums[b+2]; cnt := nums[b+3];
    fresh_t := at - at % nums[b+4] + nums[b+5] + cost; fresh_n := -rem;
    IF rem > 0 THEN
      fresh_t := fresh_t + 1; fresh_n := cnt - rem;
    END IF;
    INSERT INTO "throttle" AS s (key, t, n, p, l)
    VALUES (keys[i], fresh_t, fresh_n, at, lims[i])
    ON CONFLICT (key) DO UPDATE
       SET t = CASE WHEN s.t <= excluded.p THEN excluded.t WHEN s.n >= rem THEN s.t + cost ELSE s.t + cost + 1 END,
           n = CASE WHEN s.t <= excluded.p THEN excluded.n WHEN s.n >= rem THEN s.n - rem ELSE s.n - rem + cnt END,
           p = -excluded.p
     WHERE s.l = excluded.l AND s.a IS NULL
       AND CASE WHEN s.t <= excluded.p THEN true
                WHEN s.n NOT BETWEEN CASE WHEN rem < 0 THEN 1 ELSE 0 END AND nums[b+8] OR s.t > 4611686018427387904 THEN false
                WHEN s.n >= rem THEN (s.t + cost, rem - s.n) <= (excluded.t + nums[b+6], nums[b+7])
                ELSE (s.t + cost + 1, rem - s.n - cnt) <= (excluded.t + nums[b+6], nums[b+7]) END
    RETURNING s.t, s.n, s.p INTO t1, n1, p1;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'TH001'; -- takes back what was charged
    END IF;
    after := after || t1 || n1;
    IF p1 > 0 THEN
      added := added + 1;
    END IF;
  END LOOP;
EXCEPTION WHEN SQLSTATE 'TH001' THEN
  after := NULL;
  added := 0;
END
$several$;
