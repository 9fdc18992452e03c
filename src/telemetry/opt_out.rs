//! Keeps ONNX Runtime from reporting its usage over the network.

/// Switches the reports of ONNX Runtime off for this process. Call it first in `main`.
///
/// Since 1.31 the library sends its path, the processor and a device id to its makers, and keeps a file below the
/// home folder to do so; its own switch in the API comes too late, and only this variable stops it.
#[expect(
    unsafe_code,
    reason = "the runtime reads the process environment, and nothing else stops its reports"
)]
pub fn of_the_runtime() {
    // SAFETY: nothing else has started, so no other thread can read or write the environment meanwhile.
    unsafe { std::env::set_var("ORT_DISABLE_TELEMETRY", "1") };
}
