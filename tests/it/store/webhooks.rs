//! Webhooks and their messages: one scenario that runs on both databases.

use facescan_store::{
    AttemptEnd, AttemptFailure, AttemptResult, BatchWebhook, CreatedBatch, DueDelivery,
    HostFailure, NewAuditEntry, NewBatch, Store, TakeDeliveries, TakenDeliveries, Webhook,
    WebhookHealth, WebhookHost,
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{batches::new_batch, fixtures::noon};
use crate::support::database::Database;

const DAY: Duration = Duration::days(1);

/// Runs every step. Each step has its own tenant.
pub async fn scenario(database: Database) {
    let store = database.open().await;
    keep_the_limit(&store).await;
    find_tenants_in_turn(&store).await;
    switch_off_after_a_day(&store).await;
    write_nothing_for_an_old_attempt(&store).await;
    limit_webhooks_of_batches(&store).await;
    switch_off_a_host(&store).await;
}

fn webhook(tenant: &str) -> Webhook {
    Webhook {
        id: Uuid::now_v7(),
        tenant: tenant.into(),
        batch_id: None,
        url: "https://example.com/".into(),
        host: None,
        secret: "first".into(),
        created_at: noon(),
        old_secret: None,
        health: WebhookHealth::default(),
    }
}

fn entry(tenant: &str, action: &str) -> Option<NewAuditEntry> {
    Some(NewAuditEntry {
        tenant: tenant.into(),
        at: noon(),
        request_id: "request".into(),
        key_id: None,
        action: action.into(),
        target: None,
        details: "{}".into(),
    })
}

async fn audited(store: &Store, tenant: &str) -> Vec<String> {
    let entries = store.audit_entries(tenant, 0, 100).await.unwrap();
    entries.into_iter().map(|line| line.entry.action).collect()
}

/// Creates a webhook, and a batch that is cancelled at noon, which makes a message.
async fn with_message(store: &Store, tenant: &str) -> Webhook {
    let webhook = webhook(tenant);
    assert!(store.create_webhook(&webhook, 9, None).await.unwrap());
    end_a_batch(store, tenant).await;
    webhook
}

async fn end_a_batch(store: &Store, tenant: &str) {
    let batch = new_batch(tenant, 2);
    store.create_batch(&batch).await.unwrap();
    let cancelled = store.cancel_batch(tenant, batch.id, noon()).await;
    assert!(cancelled.unwrap().is_some());
}

async fn take(store: &Store, tenant: &str, now: OffsetDateTime) -> TakenDeliveries {
    let request = TakeDeliveries {
        now,
        again_at: now + Duration::minutes(1),
        limit: 2,
    };
    store.take_deliveries(tenant, request).await.unwrap()
}

/// Ends an attempt with a failure. Returns whether this switched the webhook off.
async fn fail(store: &Store, due: &DueDelivery, at: OffsetDateTime) -> bool {
    let failure = AttemptFailure {
        error: "no".into(),
        retry_at: Some(at + Duration::minutes(5)),
        disable_if_failing_since: at - DAY,
        audit: entry(&due.webhook.tenant, "disable_webhook"),
        host: due.webhook.host.is_some().then(|| HostFailure {
            disable_if_failing_since: at - DAY,
            off_until: at + DAY,
            audit: entry(&due.webhook.tenant, "disable_host"),
        }),
    };
    let result = AttemptResult::Failed(Box::new(failure));
    end(store, due, at, result).await
}

async fn end(
    webhooks: &Store,
    due: &DueDelivery,
    at: OffsetDateTime,
    result: AttemptResult,
) -> bool {
    let end = AttemptEnd {
        delivery: due.id,
        webhook: due.webhook.id,
        attempt: due.attempts,
        at,
        result,
    };
    webhooks.end_attempt(&end).await.unwrap()
}

async fn health(store: &Store, tenant: &str) -> WebhookHealth {
    let listed = store.list_webhooks(tenant).await.unwrap();
    listed.into_iter().next().unwrap().health
}

async fn keep_the_limit(store: &Store) {
    let creates = (0..8).map(|_| {
        let (webhooks, webhook) = (store.clone(), webhook("limit"));
        tokio::spawn(async move {
            let entry = entry("limit", "create_webhook");
            webhooks.create_webhook(&webhook, 3, entry).await.unwrap()
        })
    });
    let created = futures::future::join_all(creates).await;
    let created = created
        .into_iter()
        .filter(|created| *created.as_ref().unwrap());
    assert_eq!(created.count(), 3, "also if they are created together");
    assert_eq!(audited(store, "limit").await.len(), 3);
    let listed = store.list_webhooks("limit").await.unwrap();
    let delete = |tenant| store.delete_webhook(tenant, listed[0].id, entry(tenant, "delete"));
    assert!(!delete("another tenant").await.unwrap());
    assert!(delete("limit").await.unwrap());
    assert!(audited(store, "another tenant").await.is_empty());
    assert_eq!(audited(store, "limit").await.len(), 4);
}

async fn find_tenants_in_turn(store: &Store) {
    for tenant in ["turn a", "turn b", "turn c"] {
        let webhook = with_message(store, tenant).await;
        assert_eq!(
            health(store, &webhook.tenant).await,
            WebhookHealth::default()
        );
    }
    for _ in 0..5 {
        end_a_batch(store, "turn a").await;
    }
    let tenants = async |now, after, limit| {
        let found = store.tenants_with_deliveries(now, after, limit);
        found.await.unwrap()
    };
    assert!(tenants(noon() - DAY, "turn", 9).await.is_empty());
    assert_eq!(tenants(noon(), "turn", 2).await, ["turn a", "turn b"]);
    assert_eq!(tenants(noon(), "turn b", 2).await, ["turn c"]);
    let taken = take(store, "turn a", noon()).await;
    assert!(taken.has_more && taken.deliveries.len() == 2);
    let taken = take(store, "turn b", noon()).await;
    assert!(!taken.has_more && taken.deliveries.len() == 1);
    assert_eq!(tenants(noon(), "turn", 9).await, ["turn a", "turn c"]);
    for tenant in ["turn a", "turn c"] {
        while take(store, tenant, noon()).await.has_more {}
    }
    assert!(tenants(noon(), "turn", 9).await.is_empty());
    let later = noon() + Duration::minutes(1);
    assert_eq!(
        tenants(later, "turn", 9).await.len(),
        3,
        "attempts that never ended"
    );
}

async fn switch_off_after_a_day(store: &Store) {
    let tenant = "switch off";
    let webhook = with_message(store, tenant).await;
    let due = take(store, tenant, noon()).await.deliveries;
    assert!(!fail(store, &due[0], noon()).await);
    let state = health(store, tenant).await;
    assert_eq!((state.failures, state.failing_since), (1, Some(noon())));
    assert_eq!(state.last_error.as_deref(), Some("no"));

    // A success begins the day anew.
    let second = noon() + DAY;
    let due = take(store, tenant, second).await.deliveries;
    assert!(!end(store, &due[0], second, AttemptResult::Delivered).await);
    let state = health(store, tenant).await;
    assert_eq!((state.failures, state.last_success_at), (0, Some(second)));
    assert!(state.failing_since.is_none() && state.last_error.is_none());

    end_a_batch(store, tenant).await;
    end_a_batch(store, tenant).await;
    let due = take(store, tenant, second).await.deliveries;
    assert!(!fail(store, &due[0], second).await);
    let third = second + DAY;
    assert!(fail(store, &due[1], third).await);
    assert_eq!(health(store, tenant).await.disabled_at, Some(third));
    assert_eq!(audited(store, tenant).await, ["disable_webhook"]);

    // Nothing is sent while it is off, and what waited is sent when it is on.
    end_a_batch(store, tenant).await;
    let fourth = third + DAY;
    assert!(take(store, tenant, fourth).await.deliveries.is_empty());
    let none = store.tenants_with_deliveries(fourth, tenant, 1);
    assert_ne!(none.await.unwrap(), [tenant]);
    let enabled = store
        .enable_webhook(tenant, webhook.id, fourth, entry(tenant, "enable_webhook"))
        .await;
    let enabled = enabled.unwrap().unwrap();
    assert_eq!(
        (enabled.health.failures, enabled.health.disabled_at),
        (0, None)
    );
    assert_eq!(take(store, tenant, fourth).await.deliveries.len(), 2);
    assert_eq!(
        audited(store, tenant).await,
        ["disable_webhook", "enable_webhook"]
    );
}

async fn write_nothing_for_an_old_attempt(store: &Store) {
    let tenant = "old attempt";
    with_message(store, tenant).await;
    let first = take(store, tenant, noon()).await.deliveries;
    let later = noon() + Duration::minutes(2);
    let second = take(store, tenant, later).await.deliveries;
    assert_eq!((first[0].attempts, second[0].attempts), (1, 2));
    assert!(!fail(store, &first[0], later + DAY).await);
    assert_eq!(health(store, tenant).await.failures, 0);
    end(store, &second[0], later, AttemptResult::Delivered).await;
    assert!(!fail(store, &second[0], later).await);
    assert_eq!(health(store, tenant).await.last_success_at, Some(later));
    assert!(take(store, tenant, later + DAY).await.deliveries.is_empty());
}

/// Returns a new batch with a webhook of its own, and a limit of two of them.
fn batch_with_webhook(tenant: &str) -> NewBatch {
    let batch = new_batch(tenant, 2);
    let webhook = Webhook {
        batch_id: Some(batch.id),
        host: Some("example.com:443".into()),
        ..webhook(tenant)
    };
    NewBatch {
        webhook: Some(BatchWebhook {
            webhook,
            limit: 2,
            audit: entry(tenant, "create_webhook"),
        }),
        ..batch
    }
}

async fn create(store: &Store, batch: &NewBatch) -> CreatedBatch {
    store.create_batch(batch).await.unwrap()
}

async fn cancel(store: &Store, batch: &NewBatch, now: OffsetDateTime) {
    let cancelled = store.cancel_batch(&batch.tenant, batch.id, now);
    assert!(cancelled.await.unwrap().is_some());
}

async fn limit_webhooks_of_batches(store: &Store) {
    let tenant = "limit of batches";
    let creates = (0..8).map(|_| {
        let (batches, batch) = (store.clone(), batch_with_webhook(tenant));
        tokio::spawn(async move { (batches.create_batch(&batch).await.unwrap(), batch) })
    });
    let mut created = Vec::new();
    for ended in futures::future::join_all(creates).await {
        match ended.unwrap() {
            (CreatedBatch::New(_), batch) => created.push(batch),
            (other, _) => assert_eq!(other, CreatedBatch::TooManyWebhooks),
        }
    }
    assert_eq!(created.len(), 2, "also if they are created together");
    assert_eq!(audited(store, tenant).await, ["create_webhook"; 2]);
    assert!(matches!(
        create(store, &new_batch(tenant, 2)).await,
        CreatedBatch::New(_)
    ));

    // A batch that has ended counts until its message is sent.
    cancel(store, &created[0], noon()).await;
    let keyed = NewBatch {
        idempotency_key: Some("again".into()),
        ..batch_with_webhook(tenant)
    };
    assert_eq!(create(store, &keyed).await, CreatedBatch::TooManyWebhooks);
    let due = take(store, tenant, noon()).await.deliveries;
    end(store, &due[0], noon(), AttemptResult::Delivered).await;
    assert!(matches!(create(store, &keyed).await, CreatedBatch::New(_)));

    // A repeated request finds its batch, and adds no webhook.
    let again = NewBatch {
        idempotency_key: keyed.idempotency_key.clone(),
        ..batch_with_webhook(tenant)
    };
    assert!(matches!(
        create(store, &again).await,
        CreatedBatch::Existing(found) if found.id == keyed.id
    ));
    assert_eq!(audited(store, tenant).await.len(), 3);
}

/// Takes the message of a new batch that is cancelled at a time.
async fn message(store: &Store, tenant: &str, at: OffsetDateTime) -> Option<DueDelivery> {
    let batch = batch_with_webhook(tenant);
    assert!(matches!(create(store, &batch).await, CreatedBatch::New(_)));
    cancel(store, &batch, at).await;
    let taken = take(store, tenant, at).await.deliveries;
    taken.into_iter().find(|due| due.batch_id == batch.id)
}

async fn failing_hosts(store: &Store, tenant: &str) -> Vec<WebhookHost> {
    let hosts = store.list_webhook_hosts(tenant, 9).await;
    hosts.unwrap()
}

async fn switch_off_a_host(store: &Store) {
    let tenant = "host";
    let due = message(store, tenant, noon()).await.unwrap();
    assert!(!fail(store, &due, noon()).await);
    let [failing] = failing_hosts(store, tenant).await.try_into().unwrap();
    assert_eq!(
        (failing.host.as_str(), failing.webhook, failing.failures),
        ("example.com:443", due.webhook.id, 1)
    );
    assert_eq!((failing.failing_since, failing.off_until), (noon(), None));
    assert!(failing_hosts(store, "another tenant").await.is_empty());
    end(store, &due, noon(), AttemptResult::Obsolete).await;

    // The message of another batch fails a day after the first one.
    let second = noon() + DAY;
    let waiting = message(store, tenant, second).await.unwrap();
    let due = message(store, tenant, second).await.unwrap();
    assert!(fail(store, &due, second).await);
    let [failing] = failing_hosts(store, tenant).await.try_into().unwrap();
    assert_eq!(failing.off_until, Some(second + DAY));
    let actions = audited(store, tenant).await;
    assert_eq!(actions.last().unwrap(), "disable_host");
    assert_eq!(
        actions
            .iter()
            .filter(|action| *action == "disable_host")
            .count(),
        1
    );

    // Nothing is sent while it is off: what waits is given up, and batches that end make no message.
    let later = second + Duration::minutes(9);
    assert!(take(store, tenant, later).await.deliveries.is_empty());
    assert!(message(store, tenant, later).await.is_none());
    assert!(!fail(store, &waiting, later).await);

    // A day later one failure switches it off again, and a success ends this.
    let third = second + DAY;
    let due = message(store, tenant, third).await.unwrap();
    assert!(fail(store, &due, third).await);
    let enabled = store
        .enable_webhook(tenant, due.webhook.id, third, None)
        .await;
    assert!(enabled.unwrap().is_some());
    assert!(failing_hosts(store, tenant).await.is_empty());
    let due = message(store, tenant, third).await.unwrap();
    assert!(!fail(store, &due, third).await);
    end(store, &due, third, AttemptResult::Obsolete).await;
    let due = message(store, tenant, third).await.unwrap();
    end(store, &due, third, AttemptResult::Delivered).await;
    assert!(failing_hosts(store, tenant).await.is_empty());
}
