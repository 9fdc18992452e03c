//! Reads from the runtime which provider runs each node of a session.
//!
//! A registered provider can leave nodes to the CPU without reporting it. The `ort` crate does not wrap the call that
//! reports the assignment, so this module makes it.
#![expect(
    unsafe_code,
    reason = "the runtime's C functions have no safe wrapper in the ort crate"
)]

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char},
    ptr, slice,
};

use ort::{AsPointer, session::Session, sys};

/// The session option that makes the runtime record the assignment.
pub(super) const RECORD: (&str, &str) = ("session.record_ep_graph_assignment_info", "1");

/// Returns the number of nodes on each provider, by the runtime's names. The result is empty if the runtime does not
/// report it.
pub(super) fn of(session: &Session) -> BTreeMap<String, usize> {
    let api = ort::api();
    let mut subgraphs = ptr::null();
    let mut count = 0;
    // SAFETY: the session is alive, and both out-pointers point to values of the types that the function writes.
    let status = unsafe {
        (api.Session_GetEpGraphAssignmentInfo)(session.ptr(), &mut subgraphs, &mut count)
    };
    if !is_ok(status) || subgraphs.is_null() {
        return BTreeMap::new();
    }
    // SAFETY: the function succeeded, so `subgraphs` points to `count` pointers that the session owns.
    let subgraphs = unsafe { slice::from_raw_parts(subgraphs, count) };
    let mut nodes = BTreeMap::new();
    for &subgraph in subgraphs {
        if let Some((provider, count)) = subgraph_of(subgraph) {
            *nodes.entry(provider).or_insert(0) += count;
        }
    }
    nodes
}

/// Returns the provider of a subgraph, and how many nodes it has.
fn subgraph_of(subgraph: *const sys::OrtEpAssignedSubgraph) -> Option<(String, usize)> {
    let api = ort::api();
    let mut name: *const c_char = ptr::null();
    // SAFETY: `subgraph` comes from a live session, and the out-pointer points to a value of the type that is written.
    let named = unsafe { (api.EpAssignedSubgraph_GetEpName)(subgraph, &mut name) };
    let mut nodes = ptr::null();
    let mut count = 0;
    // SAFETY: as above.
    let counted = unsafe { (api.EpAssignedSubgraph_GetNodes)(subgraph, &mut nodes, &mut count) };
    if !(is_ok(named) && is_ok(counted)) || name.is_null() {
        return None;
    }
    // SAFETY: the runtime returned a string that ends with a zero and lives as long as the session.
    let name = unsafe { CStr::from_ptr(name) };
    Some((name.to_string_lossy().into_owned(), count))
}

/// Returns whether a call succeeded. The error message is dropped.
fn is_ok(status: sys::OrtStatusPtr) -> bool {
    if status.0.is_null() {
        return true;
    }
    // SAFETY: the caller owns a status that is not null and releases it once.
    unsafe { (ort::api().ReleaseStatus)(status.0) };
    false
}
