//! Keeps ONNX Runtime from reporting its usage over the network.

/// Turns the usage reports of ONNX Runtime off for this process. Call it first in `main`.
///
/// Since version 1.31, the library reports its path, the processor and a device id to its vendor. It keeps a file for
/// that in the home directory. The switch in its API takes effect too late, so only this variable prevents the reports.
#[expect(
    unsafe_code,
    reason = "the runtime reads the process environment, and nothing else stops its reports"
)]
pub fn of_the_runtime() {
    // SAFETY: no other thread has started yet, so none can read or write the environment at the same time.
    unsafe { std::env::set_var("ORT_DISABLE_TELEMETRY", "1") };
}
