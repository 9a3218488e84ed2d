-- Leases: who acts (C29-C34). A row with an expiry, not an advisory lock: it works behind a
-- transaction pooler and outlives a holder that is powered off.

-- name: take
-- C29: taking and renewing are one statement, so the two cannot disagree about what a held lease
-- looks like, and of two racing processes exactly one gets the row. A takeover is a new term: it
-- raises the epoch. Sorted, so two processes that take several never deadlock.
INSERT INTO leases (name, owner, epoch, expires_at, acquired_at, note)
SELECT wanted.name, %(owner)s::text, 1,
       compute_now() + make_interval(secs => %(ttl)s::double precision), compute_now(),
       %(note)s::text
  FROM unnest(%(names)s::text[]) AS wanted (name)
 ORDER BY wanted.name
    ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner,
       epoch = CASE WHEN leases.owner = excluded.owner THEN leases.epoch
                    ELSE leases.epoch + 1 END,
       acquired_at = CASE WHEN leases.owner = excluded.owner THEN leases.acquired_at
                          ELSE excluded.acquired_at END,
       expires_at = excluded.expires_at,
       note = excluded.note
 WHERE leases.owner = excluded.owner OR leases.expires_at <= compute_now()
RETURNING name, owner, epoch;

-- name: give_up
-- The owner goes with it: whoever takes the lease next, this process included, begins a new term.
UPDATE leases
   SET owner = '', expires_at = compute_now()
 WHERE name = %(name)s::text AND owner = %(owner)s::text AND epoch = %(epoch)s::bigint;

-- name: end_terms_of
-- Of a process that is known to be dead. A transaction that it left is not waited for: the server
-- ends it in a moment, and whoever asked comes again.
UPDATE leases
   SET owner = '', expires_at = compute_now()
 WHERE name IN (SELECT name
                  FROM leases
                 WHERE owner = %(owner)s::text
                 ORDER BY name
                   FOR UPDATE SKIP LOCKED);

-- name: terms_of
SELECT count(*)
  FROM leases
 WHERE owner = %(owner)s::text;

-- name: expire_all
-- C34: for the one machine that knows everybody else is stopped. Rows stay: epochs survive.
UPDATE leases
   SET expires_at = compute_now()
 WHERE expires_at > compute_now();

-- name: fence
-- C30: the row lock is the fence. A takeover waits for it, so a zombie either still holds the lease
-- until it commits, or sees no row here. A plain EXISTS would see the old term and write after the
-- new one began. The timeouts (SET LOCAL in the same round trip) bound how long a takeover waits.
SELECT 1,
       set_config('statement_timeout', %(timeout_ms)s::int::text, true),
       set_config('idle_in_transaction_session_timeout', %(timeout_ms)s::int::text, true)
  FROM leases
 WHERE name = %(name)s::text AND owner = %(owner)s::text AND epoch = %(epoch)s::bigint
   AND expires_at > compute_now()
   FOR SHARE;

-- name: current
-- Who holds it now, if anybody.
SELECT name, owner, epoch
  FROM leases
 WHERE name = %(name)s::text AND expires_at > compute_now();

-- name: free
-- Of these names, those that nobody holds, or nobody but one owner.
SELECT wanted.name
  FROM unnest(%(names)s::text[]) AS wanted (name)
  LEFT JOIN leases
    ON leases.name = wanted.name
   AND leases.expires_at > compute_now()
   AND leases.owner <> %(but)s::text
 WHERE leases.name IS NULL
 ORDER BY wanted.name;

-- name: holders
-- For an operator asking who has been in charge, and since when.
SELECT name, owner, epoch, note, acquired_at, expires_at
  FROM leases
 WHERE expires_at > compute_now()
 ORDER BY name;
