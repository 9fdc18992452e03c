//! The hosts of webhooks of one batch.
//!
//! Such a webhook has one message, which is given up before its address has failed for long. So its failures count for the host,
//! together with those of the tenant's other batches.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::records::{HostFailure, WebhookHost};
use crate::audit::append;
use crate::call::query;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;

/// A host is forgotten when this time has passed since its last failure.
const REMEMBERED_FOR: Duration = Duration::days(7);

crate::prepared::statements! {
    /// Records that the host of a webhook took a message. A host has a row only while it fails.
    pub(super) const SUCCEEDED = "DELETE FROM webhook_hosts WHERE (tenant, host) = \
         (SELECT w.tenant, w.host FROM webhooks w WHERE w.id = :webhook)";

    const FAILED = "INSERT INTO webhook_hosts \
             (tenant, host, webhook_id, failures, failing_since, last_failed_at, last_error) \
         SELECT w.tenant, w.host, w.id, 1, :at, :at, :error FROM webhooks w WHERE w.id = :webhook AND w.host IS NOT NULL \
         ON CONFLICT (tenant, host) DO UPDATE SET webhook_id = excluded.webhook_id, \
             failures = webhook_hosts.failures + 1, last_failed_at = excluded.last_failed_at, \
             last_error = excluded.last_error";

    const SWITCH_OFF = "UPDATE webhook_hosts SET off_until = :off_until WHERE (tenant, host) = \
             (SELECT w.tenant, w.host FROM webhooks w WHERE w.id = :webhook) \
         AND failing_since <= :since AND (off_until IS NULL OR off_until <= :at)";

    const FORGET = "DELETE FROM webhook_hosts WHERE tenant = :tenant AND last_failed_at < :before", scans "the failing hosts of one tenant";

    const LIST = "SELECT host, webhook_id, failures, failing_since, last_error, off_until \
         FROM webhook_hosts WHERE tenant = :tenant ORDER BY last_failed_at DESC, host LIMIT :limit", sorts "the failing hosts of one tenant";
}

/// Records that the host of a webhook did not take a message. Returns whether this switched the host off.
pub(super) async fn failed(
    connection: &mut Connection<'_>,
    webhook: Uuid,
    (at, error): (OffsetDateTime, &str),
    failure: &HostFailure,
) -> Result<bool, StoreError> {
    let at = micros(at);
    let values = params!(webhook, at, error);
    connection.execute(FAILED, values).await?;
    let since = micros(failure.disable_if_failing_since);
    let values = params!(webhook, since, at, off_until = micros(failure.off_until));
    let is_off = connection.execute(SWITCH_OFF, values).await? == 1;
    if is_off {
        append(connection, failure.audit.as_slice()).await?;
    }
    Ok(is_off)
}

/// Forgets the hosts of a tenant that have not failed lately.
pub(super) async fn forget(
    connection: &mut Connection<'_>,
    tenant: &str,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let before = micros(now - REMEMBERED_FOR);
    connection.execute(FORGET, params!(tenant, before)).await?;
    Ok(())
}

impl Store {
    /// Returns the hosts that did not take the last message of a webhook of one batch, those first that failed last.
    pub async fn list_webhook_hosts(
        &self,
        tenant: &str,
        limit: u32,
    ) -> Result<Vec<WebhookHost>, StoreError> {
        query!(self, "list_webhook_hosts", |connection| {
            let values = params!(tenant, limit);
            Ok(connection.fetch_all(LIST, values).await?)
        })
    }
}
