//! Checks of values.

use std::path::Path;

/// Returns whether a path does not depend on the working directory.
pub(crate) fn is_absolute(path: &Path) -> bool {
    path.is_absolute()
}

/// Returns whether a path is not empty. An empty path means that a setting was left blank.
pub(crate) fn is_path(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

/// Turns a test of a value into a validator. Its error has no detail, because the report quotes `configs/config.yaml`.
pub(crate) fn must<T: ?Sized>(
    test: impl FnOnce(&T) -> bool,
) -> impl FnOnce(&T, &()) -> garde::Result {
    let refused = || garde::Error::new("is not allowed");
    move |value, ()| test(value).then_some(()).ok_or_else(refused)
}
