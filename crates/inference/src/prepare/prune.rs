//! Removes initializers and inputs that nothing reads.

use std::collections::HashSet;

use crate::onnx::GraphProto;

/// Removes initializers that no node reads, and graph inputs that no node reads or that have an initializer.
///
/// An input with an initializer is a weight that a caller may override, so ONNX Runtime does not fold it.
pub fn drop_unused(graph: &mut GraphProto) {
    let read: HashSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| &node.input)
        .chain(
            graph
                .output
                .iter()
                .filter_map(|output| output.name.as_ref()),
        )
        .map(String::as_str)
        .collect();
    graph.initializer.retain(|t| read.contains(t.name()));
    let filled: HashSet<&str> = graph.initializer.iter().map(|t| t.name()).collect();
    graph
        .input
        .retain(|input| read.contains(input.name()) && !filled.contains(input.name()));
}
