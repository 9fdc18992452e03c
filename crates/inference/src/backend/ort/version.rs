//! The version of a library of ONNX Runtime.
#![expect(unsafe_code, reason = "the library has a C interface")]

use std::{ffi::CStr, path::Path};

use libloading::{Library, Symbol};
use ort::sys::OrtApiBase;

use crate::backend::BackendError;

/// Returns the version that a library states, such as `1.31.1`.
///
/// # Errors
/// Returns [`BackendError::Library`] if the library cannot be loaded or is another one.
pub fn version(library: &Path) -> Result<String, BackendError> {
    let refused =
        |error: libloading::Error| BackendError::Library(format!("{}: {error}", library.display()));
    // SAFETY: Loading runs the initializers of the library, which is the one that the settings name for this purpose. It is never
    // unloaded, because the runtime does not support that.
    let loaded: &Library = Box::leak(Box::new(unsafe { Library::new(library) }.map_err(refused)?));
    // SAFETY: Every version of the library exports this function with this type.
    let base: Symbol<'_, unsafe extern "system" fn() -> *const OrtApiBase> =
        unsafe { loaded.get(b"OrtGetApiBase\0") }.map_err(refused)?;
    // SAFETY: The function returns a table that lives as long as the library, and the text lives as long, too.
    let text = unsafe { CStr::from_ptr(((*base()).GetVersionString)()) };
    Ok(text.to_string_lossy().into_owned())
}
