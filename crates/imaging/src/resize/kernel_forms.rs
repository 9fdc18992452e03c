//! Test support: samples for kernels, and which forms of a kernel this CPU can run.

/// Whether this CPU has all of the named x86-64 features, by the standard library's detection.
macro_rules! has_features {
    ($($feature:tt),*) => {{
        #[cfg(target_arch = "x86_64")]
        {
            true $(&& std::arch::is_x86_feature_detected!($feature))*
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            false
        }
    }};
}
pub(super) use has_features;

/// Returns random numbers of 16 bits. They are the same in every run.
pub(super) fn noise() -> impl Iterator<Item = u16> {
    let mut state = 1u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u16
    })
}

/// Stands for a form that the CPU cannot run. Accepts the form's arguments.
pub(super) fn not_run<T>(_: T) -> bool {
    false
}
