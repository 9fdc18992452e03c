//! Which enrolled faces may be in a response.

/// A condition that is true for subjects that may be in a response at the time `:now`. In the query, `s` is the subject and `c`
/// is the collection.
macro_rules! is_live {
    () => {
        "(s.expires_at IS NULL OR s.expires_at > :now) \
         AND s.last_seen_at + c.retention_days * 86400000000 > :now \
         AND (NOT c.consent_required OR (s.consent_given_at <= :now AND s.consent_expires_at > :now)) \
         AND NOT c.is_erased"
    };
}

/// The same for the faces of a library, which have no subject. In the query, `e` is the enrollment.
macro_rules! is_live_face {
    () => {
        "(e.subject_id IS NULL AND NOT c.is_erased AND \
         e.created_at + c.retention_days * 86400000000 > :now)"
    };
}

pub(super) use {is_live, is_live_face};
