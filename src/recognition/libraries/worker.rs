//! Runs the clusterings that were requested, one at a time in each server.
//!
//! A server leases a clustering and renews the lease while it works. If the server dies, another one begins the clustering
//! again after the lease.

use std::time::Duration;

use facescan_store::{ClusteringEnd, LeasedClustering};
use tokio_util::sync::CancellationToken;

use super::{Libraries, clustering::Compared};
use crate::{
    recognition::error::RecognitionError,
    telemetry::{
        causes::with_causes,
        metrics::{Metrics, labels::Sweep},
    },
};

/// The length of a lease.
const LEASE: Duration = Duration::from_secs(60);

/// The time between two renewals.
const RENEWAL: Duration = Duration::from_secs(10);

/// The time between two looks for a clustering.
const POLL: Duration = Duration::from_secs(1);

impl Libraries {
    /// Runs clusterings until `stop` is cancelled. A clustering that is interrupted begins again after its lease.
    pub async fn work_until(&self, metrics: &Metrics, stop: CancellationToken) {
        loop {
            let worked = tokio::select! {
                () = stop.cancelled() => return,
                worked = self.work_once() => worked,
            };
            match worked {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(error = %with_causes(&error), "a clustering was interrupted; it begins again");
                    metrics.sweep_failed(Sweep::Clusterings);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Runs the oldest clustering that waits. Returns false if none waits.
    ///
    /// # Errors
    /// Returns an error if the database fails. The clustering begins again after its lease.
    pub async fn work_once(&self) -> Result<bool, RecognitionError> {
        let now = self.collections.clock.now();
        let Some(mut leased) = self.store.lease_clustering(now, now + LEASE).await? else {
            return Ok(false);
        };
        let (library, request) = (leased.collection.clone(), leased.request);
        let compared = Compared::default();
        let result = tokio::select! {
            result = self.cluster((&library, &request), &compared) => result,
            lost = self.keep_lease(&mut leased, &compared) => return lost.map(|()| true),
        };
        let end = match result {
            Ok(progress) => ClusteringEnd::Done(progress),
            Err(error @ (RecognitionError::Store(_) | RecognitionError::Index(_))) => {
                return Err(error);
            }
            Err(error) => ClusteringEnd::Failed(with_causes(&error).to_string()),
        };
        let now = self.collections.clock.now();
        self.store.end_clustering(&leased, &end, now).await?;
        Ok(true)
    }

    /// Renews a lease until it is lost, because the server was suspended or the library was erased.
    async fn keep_lease(
        &self,
        leased: &mut LeasedClustering,
        compared: &Compared,
    ) -> Result<(), RecognitionError> {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let until = self.collections.clock.now() + LEASE;
            let progress = compared.progress();
            let renewed = self.store.renew_clustering(leased, until, progress).await?;
            let Some(until) = renewed else {
                tracing::warn!(clustering = %leased.request.id, "the lease of a clustering is lost");
                return Ok(());
            };
            leased.leased_until = until;
        }
    }
}
