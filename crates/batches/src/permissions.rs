//! The permissions of the folder of payloads.

use std::{fs, io, path::Path};

/// Creates a folder of the program's own files, and removes the permissions of the group and of others if it exists.
///
/// # Errors
/// Returns an error if the folder cannot be created. One that belongs to another user is left as it is, with a warning.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if let Err(error) = tighten(folder) {
        tracing::warn!(%error, folder = %folder.display(), "other users can open this folder; run `chmod 700` on it");
    }
    Ok(())
}

#[cfg(unix)]
fn tighten(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(folder)?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(folder, fs::Permissions::from_mode(mode & 0o700)),
    }
}

#[cfg(not(unix))]
fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}
