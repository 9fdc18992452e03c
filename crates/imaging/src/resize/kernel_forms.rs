//! Test support: which forms of a kernel this CPU can run.

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

/// A form of a kernel after its comparison with the definition.
pub(super) struct Form {
    /// The kernel and the form.
    pub(super) name: &'static str,
    /// Whether the CPU has the features that the form needs.
    pub(super) is_supported: bool,
    /// Whether the form ran.
    pub(super) ran: bool,
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
