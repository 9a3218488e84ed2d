-- name: bookings_of_ended_allocations
SELECT DISTINCT device_bookings.allocation_id
FROM device_bookings
JOIN allocations ON allocations.id = device_bookings.allocation_id
WHERE upper(device_bookings.during) > compute_now()
    AND allocations.state IN ('released', 'failed')
ORDER BY device_bookings.allocation_id;

-- name: charges_of_ended_reservations
SELECT DISTINCT quota_charges.owner_key
FROM quota_charges
JOIN reservations ON reservations.id = quota_charges.owner_key
WHERE reservations.state IN ('draft', 'denied', 'released', 'failed', 'cancelled', 'expired')
ORDER BY quota_charges.owner_key;

-- name: overdue_ends
SELECT id
FROM reservations
WHERE state IN ('placed', 'binding', 'active')
    AND ends_at < compute_now() - interval '1 minute'
ORDER BY id;
