//! Runs the clusterings that were requested, one at a time in each server.
//!
//! A server leases a clustering and renews the lease while it works. If the server dies, another one begins the clustering
//! again after the lease.

use std::time::Duration;

use facescan_store::{ClusteringEnd, ClusteringProgress, LeasedClustering};
use facescan_telemetry::{
    causes::with_causes,
    metrics::{Metrics, labels::Sweep},
    sweeps::Sweeps,
};
use tokio_util::sync::CancellationToken;

use super::clustering::ComparisonCounts;
use crate::{collections::Collections, error::RecognitionError, index::IndexError};

/// The length of a lease.
const LEASE: Duration = Duration::from_secs(60);

/// The time between two renewals.
const RENEWAL: Duration = Duration::from_secs(10);

/// The time between two looks for a clustering.
const POLL: Duration = Duration::from_secs(1);

impl Collections {
    /// Runs clusterings until `stop` is cancelled. A clustering that is interrupted begins again after its lease.
    pub async fn cluster_until(&self, metrics: &Metrics, stop: CancellationToken) {
        let mut looks = Sweeps::new(Sweep::Clusterings, POLL, stop.clone(), metrics);
        while looks.next().await {
            let worked = stop.run_until_cancelled(self.cluster_waiting()).await;
            looks.record(worked.unwrap_or(Ok(())));
        }
    }

    /// Runs the clusterings that wait.
    async fn cluster_waiting(&self) -> Result<(), RecognitionError> {
        loop {
            match self.cluster_once().await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(RecognitionError::LeaseLost) => {
                    tracing::info!(
                        "stopped a clustering that was cancelled, or that another server does"
                    );
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs the oldest clustering that waits. Returns false if none waits.
    ///
    /// # Errors
    /// Returns an error if the database or the index is unavailable. The clustering begins again after its lease.
    pub async fn cluster_once(&self) -> Result<bool, RecognitionError> {
        let now = self.clock.now();
        let Some(leased) = self.store.lease_clustering(now, now + LEASE).await? else {
            return Ok(false);
        };
        let compared = ComparisonCounts::default();
        let result = tokio::select! {
            result = self.cluster(&leased, &compared) => result,
            lost = self.keep_lease(&leased, &compared) => lost.map(|()| ClusteringProgress::default()),
        };
        let end = match result {
            Ok(progress) => ClusteringEnd::Done(progress),
            Err(error) if begins_again(&error) => return Err(error),
            Err(error) => ClusteringEnd::Failed(with_causes(&error)),
        };
        let now = self.clock.now();
        match self.store.end_clustering(&leased, &end, now).await? {
            true => Ok(true),
            false => Err(RecognitionError::LeaseLost),
        }
    }

    /// Renews a lease until another server has it, because this one was suspended, or until the clustering is cancelled or
    /// the library is erased.
    async fn keep_lease(
        &self,
        leased: &LeasedClustering,
        compared: &ComparisonCounts,
    ) -> Result<(), RecognitionError> {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let until = self.clock.now() + LEASE;
            match self
                .store
                .renew_clustering(leased, until, compared.progress())
                .await
            {
                Ok(true) => {}
                Ok(false) => return Err(RecognitionError::LeaseLost),
                // The next renewal can succeed before the lease ends. If it does not, nothing is written after it.
                Err(error) => tracing::warn!(%error, "the lease of a clustering was not renewed"),
            }
        }
    }
}

/// Returns whether a clustering that failed can succeed later.
fn begins_again(error: &RecognitionError) -> bool {
    match error {
        RecognitionError::LeaseLost => true,
        RecognitionError::Store(error) | RecognitionError::Index(IndexError::Store(error)) => {
            error.is_unavailable()
        }
        RecognitionError::Index(error) => !matches!(error, IndexError::Vector(_)),
        _ => false,
    }
}
