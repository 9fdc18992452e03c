//! The values of labels that callers choose from.

/// Declares labels with the names of their values, and lists them, so that their counters exist from the start.
macro_rules! label {
    ($(#[$doc:meta])+ $label:ident { $($(#[$value_doc:meta])+ $value:ident = $name:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $label {
            $($(#[$value_doc])+ $value,)+
        }

        impl $label {
            pub(super) const NAMES: &[&'static str] = &[$($name),+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}

label! {
    /// The budget or limit that refuses a request or an image.
    Refusal {
        /// The budget of requests.
        Requests = "requests",
        /// The budget of interactive images.
        Interactive = "interactive",
        /// The budget of bulk images.
        Bulk = "bulk",
        /// The byte budget of request bodies and large responses.
        Bytes = "bytes",
        /// The budget of responses that are not read.
        Responses = "responses",
        /// The byte budget of fetched images.
        Fetches = "fetches",
        /// The limit of a key or a tenant.
        RateLimit = "rate_limit",
    }
}

label! {
    /// A task that sweeps in the background.
    Sweep {
        /// Delivers the heads of the audit trail.
        AuditHeads = "audit_heads",
        /// Deletes what finished batches leave.
        Batches = "batches",
        /// Groups the faces of libraries.
        Clusterings = "clusterings",
        /// Deletes subjects whose time is over, and old changes of collections.
        Collections = "collections",
        /// Continues erasures.
        Erasures = "erasures",
        /// Deletes by age.
        Retention = "retention",
        /// Sends the messages of webhooks.
        Webhooks = "webhooks",
    }
}

label! {
    /// The end of an attempt to deliver a message of a webhook.
    Delivery {
        /// It was delivered.
        Delivered = "delivered",
        /// It is tried again.
        Retry = "retry",
        /// It is not tried again.
        Failed = "failed",
    }
}

label! {
    /// Why the server closed a connection.
    ClosedConnection {
        /// It waited for its client the longest, and a new connection needed its place.
        MadeRoom = "made_room",
        /// It was new, and every other connection had a request in work.
        Refused = "refused",
    }
}

/// A setting that limits what is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The requests.
    Requests,
    /// The images of interactive requests.
    InteractiveImages,
    /// The images of bulk requests.
    BulkImages,
    /// The bytes of request bodies.
    BodyBytes,
    /// The connections to the database.
    StoreConnections,
}

impl Limit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::InteractiveImages => "interactive_images",
            Self::BulkImages => "bulk_images",
            Self::BodyBytes => "body_bytes",
            Self::StoreConnections => "store_connections",
        }
    }
}
