-- Deletes what says nothing any more from some pages, at most 1000, of the
-- tables: so its work is bounded however large they are, and needs no index.
-- Rows that somebody else works on are left, so that nobody waits for them.
--
--   first  the first of the pages, those of the entries of logs coming last;
--          below zero, any
--   idle   for how long, in microseconds, they have said nothing
--   gone   how many rows were deleted
--   next   the first page not looked at, or null at the end
CREATE FUNCTION "throttle_sweep"(first bigint, pages int, idle bigint, OUT gone bigint, OUT next bigint)
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $sweep$
DECLARE
  at CONSTANT bigint := (date_part('epoch', clock_timestamp()) * 1000000)::bigint - idle;
  block CONSTANT int := current_setting('block_size')::int;
  rows CONSTANT bigint := pg_relation_size('"throttle"'::regclass) / block;
  size CONSTANT bigint := rows + pg_relation_size('"throttle_log"'::regclass) / block;
  tids tid[];
BEGIN
  IF first < 0 THEN
    first := floor(random() * size);
  END IF;
  next := first + least(greatest(pages, 1), 1000);
  next := least(next, CASE WHEN first < rows THEN rows ELSE size END);
  SELECT array_agg(('(' || page - CASE WHEN first < rows THEN 0 ELSE rows END || ',' || line || ')')::tid) INTO tids
    FROM generate_series(first, next - 1) AS page, generate_series(1, block / 28) AS line; -- as many as a page has
  IF first < rows THEN
    DELETE FROM "throttle" WHERE ctid = ANY (ARRAY(
      SELECT s.ctid FROM "throttle" s WHERE s.ctid = ANY (tids) AND s.t <= at AND coalesce(s.a[2], 0) <= at FOR UPDATE SKIP LOCKED));
  ELSE
    DELETE FROM "throttle_log" WHERE ctid = ANY (ARRAY(
      SELECT v.ctid FROM "throttle_log" v WHERE v.ctid = ANY (tids) AND v.until <= at FOR UPDATE SKIP LOCKED));
  END IF;
  GET DIAGNOSTICS gone = ROW_COUNT;
  IF next >= size THEN
    next := NULL;
  END IF;
END
$sweep$;
