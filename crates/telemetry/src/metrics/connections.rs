//! What the listeners report.

use super::{Metrics, ReasonLabels, labels::ClosedConnection};

impl Metrics {
    pub(super) fn create_known_of_connections(&self) {
        for &reason in ClosedConnection::NAMES {
            let labels = ReasonLabels { reason };
            self.connections_closed.get_or_create(&labels).inc_by(0);
        }
    }

    /// Changes the number of open connections.
    pub fn connection_opened(&self, change: i64) {
        self.connections.inc_by(change);
    }

    /// Counts a connection that was closed because there were too many.
    pub fn connection_closed(&self, closed: ClosedConnection) {
        let reason = closed.name();
        let labels = ReasonLabels { reason };
        self.connections_closed.get_or_create(&labels).inc();
    }
}
