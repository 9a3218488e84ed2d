-- Invariants of confirmations: each statement answers the offenders (C39).

-- name: beside_their_reservation
-- A reservation awaits its confirmation exactly as long as that is live, and until then.
SELECT reservations.id
FROM reservations
LEFT JOIN confirmations
    ON confirmations.id = reservations.confirmation_id
    AND confirmations.resource_id = reservations.id
    AND confirmations.action = 'compute:reservations:create'
    AND confirmations.state IN ('open', 'approved')
    AND confirmations.expires_at = reservations.confirm_until
WHERE reservations.state = 'awaiting-confirmation' AND confirmations.id IS NULL
UNION
SELECT confirmations.resource_id
FROM confirmations
LEFT JOIN reservations
    ON reservations.id = confirmations.resource_id
    AND reservations.confirmation_id = confirmations.id
    AND reservations.state = 'awaiting-confirmation'
WHERE confirmations.action = 'compute:reservations:create'
    AND confirmations.state IN ('open', 'approved')
    AND reservations.id IS NULL
ORDER BY 1;

-- name: charged
-- Nothing is held for what a person has yet to approve.
SELECT reservations.id
FROM reservations
WHERE reservations.state = 'awaiting-confirmation'
    AND EXISTS (
        SELECT FROM quota_charges WHERE quota_charges.owner_key = reservations.id
    )
ORDER BY reservations.id;

-- name: forgotten
-- Nobody will look at these again before the next resync.
SELECT confirmations.id
FROM confirmations
WHERE confirmations.state IN ('open', 'approved')
    AND NOT EXISTS (
        SELECT FROM work_queue
        WHERE work_queue.kind = 'confirmation' AND work_queue.key = confirmations.id
    )
ORDER BY confirmations.id;

-- name: overdue
-- Their time is over, and no worker has got to it.
SELECT id
FROM confirmations
WHERE state IN ('open', 'approved') AND expires_at < compute_now() - %(late)s::interval
ORDER BY id;
