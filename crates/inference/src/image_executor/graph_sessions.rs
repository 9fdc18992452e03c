//! The graphs that a device's thread has open.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use crate::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        session::{GraphModel, GraphSession, Output, Samples},
    },
};

/// Opens a graph on the device.
pub type GraphOpener =
    Arc<dyn Fn(&GraphModel) -> Result<Box<dyn GraphSession>, BackendError> + Send + Sync>;

/// The open graphs of one device, by name.
pub struct GraphSessions {
    open: GraphOpener,
    sessions: HashMap<&'static str, Box<dyn GraphSession>>,
}

impl GraphSessions {
    /// Starts with no open graph; `open` opens them.
    pub fn new(open: GraphOpener) -> Self {
        Self {
            open,
            sessions: HashMap::new(),
        }
    }

    /// Returns the session of a graph. The first call builds the graph and opens it.
    ///
    /// # Errors
    /// Returns an error if the device refuses the graph.
    pub fn session(&mut self, graph: ImageGraph) -> Result<&mut dyn GraphSession, BackendError> {
        let session = match self.sessions.entry(graph.name()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert((self.open)(&graph.model())?),
        };
        Ok(session.as_mut())
    }

    /// Returns the number of nodes of all open graphs on each provider, by the runtime's name of the provider.
    pub(super) fn assignment(&self) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for session in self.sessions.values() {
            for (provider, count) in session.assignment() {
                *nodes.entry(provider).or_insert(0) += count;
            }
        }
        nodes
    }
}

/// Returns the shape and values of a graph's only output.
///
/// # Errors
/// Returns an error if the graph does not have exactly one output, or if a value is not finite.
pub fn only_output(outputs: Vec<Output>) -> Result<(Vec<usize>, Samples), BackendError> {
    let [output] = <[Output; 1]>::try_from(outputs).map_err(|outputs| {
        BackendError::run(format!(
            "the graph returned {} outputs instead of one",
            outputs.len()
        ))
    })?;
    if let Samples::F32(values) = &output.samples
        && !values.iter().all(|value| value.is_finite())
    {
        return Err(BackendError::run("its outputs are not finite"));
    }
    Ok((output.shape, output.samples))
}
