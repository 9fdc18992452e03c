//! Test support: samples for kernels, and which forms of a kernel this CPU can run.

use std::io::Write;

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

/// A form of a kernel after its comparison with the definition.
pub(super) struct Form {
    name: &'static str,
    is_supported: bool,
    ran: bool,
}

impl Form {
    /// Names the kernel and the form, and says whether the CPU has the features that it needs and whether it ran.
    pub(super) fn new(name: &'static str, is_supported: bool, ran: bool) -> Self {
        Self {
            name,
            is_supported,
            ran,
        }
    }
}

/// Asserts that every portable form ran, and that every other form ran exactly if the CPU supports it. Lists them on
/// standard error, which the test harness does not capture.
pub(super) fn assert_ran(forms: &[Form]) {
    let names = |ran: bool| -> Vec<&str> {
        let forms = forms.iter().filter(|form| form.ran == ran);
        forms.map(|form| form.name).collect()
    };
    let (ran, not_run) = (names(true).join(", "), names(false));
    let not_run = if not_run.is_empty() {
        "none".to_owned()
    } else {
        not_run.join(", ")
    };
    let report = format!("resize kernels compared with the definition: {ran}; not run: {not_run}");
    writeln!(std::io::stderr(), "{report}").unwrap();
    for form in forms {
        assert_eq!(form.ran, form.is_supported, "{}: {report}", form.name);
        assert!(form.ran || !form.name.contains("portable"), "{report}");
    }
}
